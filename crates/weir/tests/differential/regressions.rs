//! Streams that were once answered differently, made small, each named for its cause.

use super::start;
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
];

#[test]
fn regressions_are_answered_alike() {
    let mut world = start();
    for (cause, bytes) in REGRESSIONS {
        match world.examine(&Stream::whole(bytes)) {
            Ok(None) => {}
            Ok(Some(difference)) => panic!("{cause}: {difference}"),
            Err(error) => panic!("{cause}: {error}"),
        }
    }
}
