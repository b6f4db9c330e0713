//! The model against the real memcached, where that is installed.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weir_testkit::memcached::{Connection, Memcached};
use weir_testkit::requests::{self, Kind};

/// A memcached process that ends with its value.
struct RealMemcached {
    process: Child,
    port: u16,
}

impl RealMemcached {
    /// Starts memcached on a free port; nothing if it is not installed.
    fn start() -> Option<Self> {
        let first = 20_000 + (std::process::id() % 10_000) as u16;
        for port in first..first + 100 {
            // `no_modern`: otherwise a thread in the background holds items now and then, and whether `decr` writes
            // over a longer number in place depends on that.
            let mut process = match Command::new("memcached")
                .args([
                    "-l",
                    "127.0.0.1",
                    "-U",
                    "0",
                    "-B",
                    "ascii",
                    "-t",
                    "1",
                    "-u",
                    "nobody",
                    "-o",
                    "no_modern",
                    "-vv",
                    "-p",
                ])
                .arg(port.to_string())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
            {
                Ok(process) => process,
                Err(error) if error.kind() == ErrorKind::NotFound => return None,
                Err(error) => panic!("memcached does not start: {error}"),
            };
            let mut log = BufReader::new(process.stderr.take().expect("standard error is piped"));
            let listens =
                (&mut log).lines().map_while(Result::ok).any(|line| line.contains("server listening"));
            // What it logs from now on must be read, or it would wait for us.
            std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
            let server = Self { process, port };
            if listens {
                return Some(server);
            }
        }
        panic!("memcached found no free port from {first} on");
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("memcached listens");
        stream.set_nodelay(true).expect("a TCP option");
        // Ends a comparison in which memcached says less than the model.
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket option");
        stream
    }
}

impl Drop for RealMemcached {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[expect(clippy::print_stderr, reason = "says that nothing was compared")]
fn started() -> Option<RealMemcached> {
    let server = RealMemcached::start();
    if server.is_none() {
        eprintln!("memcached is not installed: nothing is compared");
    }
    server
}

/// The real time, which decides about absolute exptimes only.
const STARTED_S: u64 = 1_795_000_000;

#[test]
fn one_request_at_a_time_is_answered_alike() {
    let Some(real) = started() else { return };
    let (mut model, mut connection) = (Memcached::new(STARTED_S), Connection::default());
    let mut stream = real.connect();
    let mut rng = SmallRng::seed_from_u64(11);
    for number in 0..20_000 {
        let request = requests::random(&mut rng, Kind::All);
        let mut expected = Vec::new();
        model.handle_bytes(&mut connection, &request, &mut expected);
        stream.write_all(&request).expect("memcached reads");
        let mut found = vec![0; expected.len()];
        let outcome = stream.read_exact(&mut found);
        assert!(
            outcome.is_ok() && found == expected,
            "request {number} {:?}\nmodel {:?}\n real {:?} ({outcome:?})",
            String::from_utf8_lossy(&request),
            String::from_utf8_lossy(&expected),
            String::from_utf8_lossy(&found),
        );
    }
    finish(stream, &mut model, connection);
}

#[test]
fn pipelined_streams_cut_anywhere_are_answered_alike() {
    let Some(real) = started() else { return };
    let mut model = Memcached::new(STARTED_S);
    for seed in 0..100 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let bytes: Vec<u8> = (0..50).flat_map(|_| requests::random(&mut rng, Kind::Pipelined)).collect();
        let (mut connection, mut expected) = (Connection::default(), Vec::new());
        model.handle_bytes(&mut connection, &bytes, &mut expected);
        let mut stream = real.connect();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(rng.random_range(1..=rest.len().min(500)));
            stream.write_all(piece).expect("memcached reads");
            rest = later;
        }
        stream.shutdown(Shutdown::Write).expect("the stream is open");
        let mut found = Vec::new();
        stream.read_to_end(&mut found).expect("memcached answers and closes");
        assert!(
            found == expected,
            "seed {seed}\nbytes {:?}\nmodel {:?}\n real {:?}",
            String::from_utf8_lossy(&bytes),
            String::from_utf8_lossy(&expected),
            String::from_utf8_lossy(&found)
        );
    }
}

#[test]
fn items_are_copied_alike() {
    let Some(real) = started() else { return };
    let (mut model, mut connection) = (Memcached::new(STARTED_S), Connection::default());
    let mut stream = real.connect();
    for request in [
        &b"set k 7 0 2\r\nab\r\nmg k k v f t\r\nmg n k v f t\r\n"[..],
        b"ms k 1 ME F0\r\nx\r\nms n 1 ME F4294967295 T60\r\nx\r\nms e 0 ME F1\r\n\r\n",
        b"get n e\r\nmg n k f\r\nmg e k v f t\r\n",
    ] {
        let mut expected = Vec::new();
        model.handle_bytes(&mut connection, request, &mut expected);
        stream.write_all(request).expect("memcached reads");
        let mut found = vec![0; expected.len()];
        stream.read_exact(&mut found).expect("memcached answers");
        assert_eq!(String::from_utf8_lossy(&found), String::from_utf8_lossy(&expected));
    }
    finish(stream, &mut model, connection);
}

#[test]
fn the_largest_item_is_the_same() {
    let Some(real) = started() else { return };
    let (mut model, mut connection) = (Memcached::new(STARTED_S), Connection::default());
    let mut stream = real.connect();
    for (flags, length) in [(0, 1_048_500), (0, 1_048_516), (0, 1_048_517), (7, 1_048_512), (7, 1_048_513)] {
        let mut request = b"set a 0 0 3\r\nold\r\n".to_vec();
        request.extend_from_slice(format!("set a {flags} 0 {length}\r\n").as_bytes());
        request.resize(request.len() + length, b'x');
        request.extend_from_slice(b"\r\nget a\r\n");
        let mut expected = Vec::new();
        model.handle_bytes(&mut connection, &request, &mut expected);
        stream.write_all(&request).expect("memcached reads");
        let mut found = vec![0; expected.len()];
        stream.read_exact(&mut found).expect("memcached answers");
        let end = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        assert!(found == expected, "{length} bytes\nmodel {}\n real {}", end(&expected), end(&found));
    }
    finish(stream, &mut model, connection);
}

/// Nothing more comes, neither from the one nor from the other.
fn finish(mut stream: TcpStream, model: &mut Memcached, mut connection: Connection) {
    // Ends a data block or a line that a cut request may have left open.
    let (end, mut expected) = (b"\r\nquit\r\n", Vec::new());
    model.handle_bytes(&mut connection, end, &mut expected);
    stream.write_all(end).expect("memcached reads");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("memcached closes");
    assert_eq!(String::from_utf8_lossy(&rest), String::from_utf8_lossy(&expected));
}
