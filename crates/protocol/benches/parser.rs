//! How fast requests are parsed and replies are found, without sockets.
//!
//! Each benchmark walks a buffer of many equal messages that lie behind each other, as a pipelining peer leaves them after one
//! read. Reported are messages per second and bytes of the buffer per second; both count everything on the wire, line endings
//! included. What is left out: reading from a socket, copying, and everything that the dataplane does with a message.
//!
//! ```text
//! cargo bench -p weir-protocol --bench parser
//! ```

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use weir_protocol::{Expected, Parsed, ReplyScanner, RequestParser};

/// About what an event loop takes in with one read.
const BUFFER_BYTES: usize = 64 << 10;

criterion_group!(benches, requests, replies);
criterion_main!(benches);

fn requests(criterion: &mut Criterion) {
    for (name, message) in [
        ("get, key of 16 bytes", get(1)),
        ("set, value of 128 bytes", set(128)),
        ("set, value of 4 KiB", set(4 << 10)),
        ("mg with 6 flags", mg()),
        ("get of 100 keys", get(100)),
    ] {
        let buffer = repeated(&message);
        measure(criterion, "requests", name, &message, || parse_all(&buffer, &message));
    }
}

fn replies(criterion: &mut Criterion) {
    for (name, expected, message) in [
        ("VALUE of 128 bytes", Expected::Retrieval, value(128)),
        ("VALUE of 4 KiB", Expected::Retrieval, value(4 << 10)),
        ("STORED", Expected::Storage, b"STORED\r\n".to_vec()),
    ] {
        let buffer = repeated(&message);
        measure(criterion, "replies", name, &message, || scan_all(expected, &buffer, &message));
    }
}

/// Times `walk` through a buffer of these messages.
fn measure(criterion: &mut Criterion, group: &str, name: &str, message: &[u8], mut walk: impl FnMut()) {
    let count = count_of(message);
    let mut group = criterion.benchmark_group(group);
    group.throughput(Throughput::ElementsAndBytes {
        elements: count as u64,
        bytes: (count * message.len()) as u64,
    });
    group.bench_function(name, |bencher| bencher.iter(&mut walk));
    group.finish();
}

/// Parses the whole buffer; a benchmark that took a wrong turn would measure something else.
fn parse_all(buffer: &[u8], message: &[u8]) {
    let mut parser = RequestParser::default();
    let mut at = 0;
    while at < buffer.len() {
        match black_box(parser.parse(black_box(&buffer[at..]))) {
            Parsed::Request { len, .. } if len == message.len() => at += len,
            other => panic!("not the request that was written: {other:?}"),
        }
    }
}

fn scan_all(expected: Expected, buffer: &[u8], message: &[u8]) {
    let mut scanner = ReplyScanner::default();
    let mut at = 0;
    while at < buffer.len() {
        match black_box(scanner.scan(expected, black_box(&buffer[at..]))) {
            Ok(Some(reply)) if reply.len == message.len() => {
                black_box(scanner.values());
                at += reply.len;
            }
            other => panic!("not the reply that was written: {other:?}"),
        }
    }
}

fn repeated(message: &[u8]) -> Vec<u8> {
    message.repeat(count_of(message))
}

/// How many messages a buffer holds.
fn count_of(message: &[u8]) -> usize {
    (BUFFER_BYTES / message.len()).max(1)
}

fn key(number: usize) -> String {
    format!("key:{number:012}")
}

fn get(keys: usize) -> Vec<u8> {
    let keys: Vec<String> = (0..keys).map(key).collect();
    format!("get {}\r\n", keys.join(" ")).into_bytes()
}

fn set(value_bytes: usize) -> Vec<u8> {
    [format!("set {} 0 0 {value_bytes}\r\n", key(0)).as_bytes(), &data(value_bytes), b"\r\n"].concat()
}

fn mg() -> Vec<u8> {
    format!("mg {} v f t s k O1234\r\n", key(0)).into_bytes()
}

fn value(value_bytes: usize) -> Vec<u8> {
    let head = format!("VALUE {} 0 {value_bytes}\r\n", key(0));
    [head.as_bytes(), &data(value_bytes), b"\r\nEND\r\n"].concat()
}

/// Bytes among which line endings are as frequent as chance makes them, so that searching for one past its line would show.
fn data(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index * 97 % 251) as u8).collect()
}
