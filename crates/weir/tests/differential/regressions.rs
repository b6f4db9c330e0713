//! Streams that were once answered differently, made small, each named for its cause.

use super::{ENGINES, start_with};
use weir_testkit::differential::Stream;

const REGRESSIONS: &[(&str, &[u8])] = &[
    ("the level of verbosity must be a number", b"verbosity b\r\nverbosity -1\r\nverbosity noreply\r\nverbosity 1 noreply\r\n"),
    ("shutdown does not count its words", b"shutdown\r\nshutdown now\r\nshutdown now please\r\n"),
    ("a length is cut to 32 bits", b"set a 0 0 4294967297\r\nx\r\nset a 0 0 2147483648\r\nset a 0 0 -4294967295\r\ny\r\nget a\r\n"),
    ("a misspelt command of its own is no browser to memcached", b"x HTTP/1.1\r\nmx HTTP/1.1\r\ngopher / HTTP/1.1\r\nget HTTP/1.1\r\n"),
    ("one word can be HTTP", b"get a\r\nHTTP/1.1\r\nget a\r\n"),
    (
        "only the first 23 words of an unknown command are looked at",
        b"xx 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 HTTP/1.1\r\nxx 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 HTTP/1.1\r\nget a\r\n",
    ),
    (
        "a minus anywhere makes a number with the top bit set none",
        b"cas y 0 0 2 18446744073709551615\t-\r\nincr a 9223372036854775808\t-\r\nincr a 9223372036854775807\t-\r\nget a\r\n",
    ),
    // Random streams store no minus (see `grammar/sparing.rs`).
    ("a negative number is no number", b"set a 0 0 2\r\n-3\r\nincr a 1\r\ndecr a 1\r\nma a\r\nget a\r\nms b 4\r\n5\t-3\r\nincr b 1\r\nget b\r\n"),
    // Its lines went to a pipe that nobody read, until memcached waited there for ever: more of them than a pipe holds.
    ("a verbose memcached is not stopped by what it says", VERBOSE),
    // Streams with arithmetic do without such values (see `grammar/sparing.rs`).
    (
        "values that are line endings",
        b"set a 0 0 2\r\n\r\n\r\nset b 0 0 1\r\n\n\r\nms c 1\r\n\r\r\nget a b c\r\nappend a 0 0 2\r\n\r\n\r\ngets a\r\nmg c v\r\n",
    ),
];

const VERBOSE: &[u8] = &{
    const FIRST: &[u8] = b"verbosity 2\r\n";
    const LINE: &[u8] = b"get a-key-that-nobody-has\r\n";
    let mut bytes = [0; FIRST.len() + 4_000 * LINE.len()];
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = if at < FIRST.len() { FIRST[at] } else { LINE[(at - FIRST.len()) % LINE.len()] };
        at += 1;
    }
    bytes
};

#[test]
fn regressions_are_answered_alike() {
    for engine in ENGINES {
        let mut world = start_with(engine);
        for (cause, bytes) in REGRESSIONS {
            match world.examine(&Stream::whole(bytes)) {
                Ok(None) => {}
                Ok(Some(difference)) => panic!("{engine}: {cause}: {difference}"),
                Err(error) => panic!("{engine}: {cause}: {error}"),
            }
        }
    }
}
