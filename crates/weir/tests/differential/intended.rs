//! Where Weir answers otherwise than memcached, and why. Each is tested to be exactly that, so that the list cannot rot.

use super::start;
use weir_testkit::differential::{Pair, Stream, Transcript};

struct Intended {
    why: &'static str,
    stream: Vec<u8>,
    memcached: Answer,
    weir: Answer,
}

enum Answer {
    Is(&'static [u8]),
    Begins(&'static [u8]),
}

use Answer::{Begins, Is};

fn intended() -> Vec<Intended> {
    let long_key = "k".repeat(251);
    vec![
        Intended {
            why: "a proxy's statistics are its own",
            stream: b"stats\r\n".to_vec(),
            memcached: Begins(b"STAT pid "),
            weir: Begins(b"STAT "),
        },
        Intended {
            why: "a sum of what is inside of servers means nothing, and the proxy itself has nothing inside",
            stream: b"stats items\r\n".to_vec(),
            memcached: Begins(b"STAT items:"),
            weir: Is(b"END\r\n"),
        },
        Intended {
            why: "whoever wants to see keys must not read that there are none",
            stream: b"stats cachedump 30 10\r\n".to_vec(),
            memcached: Is(b"END\r\n"),
            weir: Is(b"CLIENT_ERROR these statistics belong to one server, ask it directly\r\n"),
        },
        Intended {
            why: "it acts on one whole server",
            stream: b"cache_memlimit 64\r\n".to_vec(),
            memcached: Is(b"OK\r\n"),
            weir: Is(b"CLIENT_ERROR cache_memlimit not allowed\r\n"),
        },
        Intended {
            why: "it acts on one whole server",
            stream: b"slabs automove 0\r\n".to_vec(),
            memcached: Is(b"OK\r\n"),
            weir: Is(b"CLIENT_ERROR slabs not allowed\r\n"),
        },
        Intended {
            why: "it acts on one whole server",
            stream: b"lru_crawler disable\r\n".to_vec(),
            memcached: Is(b"OK\r\n"),
            weir: Is(b"CLIENT_ERROR lru_crawler not allowed\r\n"),
        },
        Intended {
            why: "memcached would later repeat the key as it is, and its line ending would begin a forged reply",
            stream: b"mg eA0KSEQ= b N30\r\n".to_vec(),
            memcached: Is(b"HD W\r\n"),
            weir: Is(b"CLIENT_ERROR bad command line format\r\n"),
        },
        Intended {
            why: "memcached forgets answers that it has not sent yet; then nothing that a client reads is in step",
            stream: format!("delete a\r\nget {long_key}\r\n").into_bytes(),
            memcached: Is(b"CLIENT_ERROR bad command line format\r\n"),
            weir: Is(b"NOT_FOUND\r\nCLIENT_ERROR bad command line format\r\n"),
        },
    ]
}

#[test]
fn intended_differences_are_exactly_these() {
    let mut world = start();
    for Intended { why, stream, memcached, weir } in intended() {
        let answers = world.exchange(&[Stream::whole(&stream)]).unwrap_or_else(|error| panic!("{error}"));
        let [Pair { plain, weir: proxy }] = &answers[..] else { panic!("one stream has one answer") };
        for (name, expected, answer) in [("memcached", memcached, plain), ("weir", weir, proxy)] {
            let text = answer.bytes.escape_ascii();
            assert!(fits(&expected, answer), "{}: {name} answers {text}; {why}", stream.escape_ascii());
        }
    }
}

/// The tail of each stream is an empty line, whose answer stands behind that to the stream.
fn fits(expected: &Answer, answer: &Transcript) -> bool {
    match expected {
        Is(bytes) => answer.complete && answer.bytes == [bytes, &b"ERROR\r\n"[..]].concat(),
        Begins(bytes) => answer.complete && answer.bytes.starts_with(bytes),
    }
}
