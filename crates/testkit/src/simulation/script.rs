//! What clients ask.

use std::fmt;

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use super::client::Client;
use crate::memcached::{Connection, Memcached, VERSION};
use crate::requests;

/// What a client learns that stores a value above the limit.
pub(super) const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";

/// What the driver answers to `stats`.
pub(super) const STATISTICS: &[u8] = b"STAT simulated 1\r\nEND\r\n";

/// Keys that every client reads and writes.
const SHARED_KEYS: usize = 5;
/// This many of them where clients race for them.
const RACED_KEYS: usize = 2;
/// Keys that one client alone writes, of each kind.
const OWN_KEYS: usize = 3;

/// A request and what its reply must be.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) bytes: Vec<u8>,
    pub(super) expected: Expected,
    pub(super) noreply: bool,
    /// It writes a key that others write, too.
    pub(super) shared: Option<SharedWrite>,
}

/// A write to a shared key.
#[derive(Clone, Debug)]
pub(super) struct SharedWrite {
    pub(super) key: Vec<u8>,
    /// What it writes, or that it deletes.
    pub(super) value: Option<Vec<u8>>,
    /// Whether it does depends on what is there.
    pub(super) is_conditional: bool,
}

/// What a reply is checked against, unless it is the failure of a server.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    /// These bytes and no others.
    Exactly(Vec<u8>),
    /// The values of some of these keys, in this order.
    Values { keys: Vec<Vec<u8>>, with_cas: bool },
    /// The value of this key, with this opaque: the answer to an `mg`. Behind a quiet one comes an `mn`.
    Read { key: Vec<u8>, opaque: String, is_quiet: bool },
    /// What fits what is believed about a key of one's own.
    Fitting { key: Vec<u8> },
    /// The same for a `cas`, which stores this value with these flags.
    FittingCas { key: Vec<u8>, stored: (Vec<u8>, u32), token: u64 },
    /// One of these lines: others write that key, too.
    OneOf(&'static [&'static str]),
    /// No reply: the connection is closed.
    Closed,
}

impl Asked {
    /// Whether these bytes may be more than one request.
    pub(super) fn is_mistake(&self) -> bool {
        matches!(self.expected, Expected::Exactly(_))
    }
}

impl fmt::Debug for Asked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = &self.bytes[..self.bytes.len().min(200)];
        write!(formatter, "{:?} ({} bytes)", String::from_utf8_lossy(start), self.bytes.len())
    }
}

/// Makes the next request of `client`.
pub(super) fn next(client: &mut Client, value_bytes_max: usize, rng: &mut SmallRng) -> Asked {
    if client.nature.rereads && rng.random_bool(0.6) {
        return if rng.random_bool(0.25) { shared_write(client, rng) } else { shared_read(client, rng) };
    }
    if client.nature.repeats && rng.random_bool(0.6) {
        let key = format!("shared-{}", rng.random_range(0..RACED_KEYS)).into_bytes();
        return meta_read(client, key, rng);
    }
    if client.nature.races && rng.random_bool(0.7) {
        return if rng.random_bool(0.6) { shared_write(client, rng) } else { shared_read(client, rng) };
    }
    if client.nature.odd && rng.random_bool(0.7) {
        return own_read(client, rng);
    }
    match rng.random_range(0..100) {
        0..28 => retrieval(client, rng),
        28..70 => own_write(client, rng),
        70..86 => shared_write(client, rng),
        86..96 => mistake(rng),
        96 => exactly(b"stats\r\n".to_vec(), STATISTICS.to_vec()),
        97 => exactly(b"version\r\n".to_vec(), format!("VERSION {VERSION}\r\n").into_bytes()),
        _ => too_large(value_bytes_max, rng),
    }
}

fn retrieval(client: &mut Client, rng: &mut SmallRng) -> Asked {
    if client.nature.reads_by_meta && rng.random_bool(0.3) {
        let key =
            if rng.random_bool(0.6) { shared_key(client, rng) } else { own_key(client, any_kind(rng), rng) };
        return meta_read(client, key, rng);
    }
    let count = if rng.random_bool(0.4) { 1 } else { rng.random_range(2..=8) };
    let keys: Vec<Vec<u8>> =
        (0..count)
            .map(|_| {
                if rng.random_bool(0.3) {
                    shared_key(client, rng)
                } else {
                    own_key(client, any_kind(rng), rng)
                }
            })
            .collect();
    let verb = *["get", "get", "gets", "gat 0", "gats 100000"].choose(rng).expect("some verbs");
    let mut bytes = verb.as_bytes().to_vec();
    for key in &keys {
        bytes.push(b' ');
        bytes.extend_from_slice(key);
    }
    bytes.extend_from_slice(b"\r\n");
    let with_cas = verb.starts_with("gets") || verb.starts_with("gats");
    Asked { bytes, expected: Expected::Values { keys, with_cas }, noreply: false, shared: None }
}

/// A read by `mg`, which is called as no other is.
fn meta_read(client: &mut Client, key: Vec<u8>, rng: &mut SmallRng) -> Asked {
    let opaque = client.next_opaque();
    let is_quiet = client.nature.hushes && rng.random_bool(0.5);
    let end = if is_quiet { " q\r\nmn\r\n" } else { "\r\n" };
    let bytes = [b"mg ", &key[..], format!(" k f v {opaque}{end}").as_bytes()].concat();
    Asked { bytes, expected: Expected::Read { key, opaque, is_quiet }, noreply: false, shared: None }
}

fn shared_read(client: &mut Client, rng: &mut SmallRng) -> Asked {
    let key = shared_key(client, rng);
    if client.nature.reads_by_meta && rng.random_bool(0.3) {
        return meta_read(client, key, rng);
    }
    let bytes = [b"get ", &key[..], b"\r\n"].concat();
    Asked {
        bytes,
        expected: Expected::Values { keys: vec![key], with_cas: false },
        noreply: false,
        shared: None,
    }
}

fn own_read(client: &Client, rng: &mut SmallRng) -> Asked {
    let count = *[1, 1, 1, 2, 3].choose(rng).expect("some counts");
    let keys: Vec<_> = (0..count).map(|_| own_key(client, any_kind(rng), rng)).collect();
    let bytes = [b"get ", &keys.join(&b' ')[..], b"\r\n"].concat();
    Asked { bytes, expected: Expected::Values { keys, with_cas: false }, noreply: false, shared: None }
}

fn own_write(client: &mut Client, rng: &mut SmallRng) -> Asked {
    let kind = any_kind(rng);
    let key = own_key(client, kind, rng);
    let name = String::from_utf8_lossy(&key).into_owned();
    let noreply = rng.random_bool(0.1);
    let end = if noreply { " noreply\r\n" } else { "\r\n" };
    // Keys of kind `p` meet no write that the primary decides, and keys of kind `v` none but what makes them where they are missed.
    let choices = if matches!(kind, 'p' | 'v') { 16 } else { 20 };
    let line = match rng.random_range(0..choices) {
        0..6 if kind == 'v' => return own_change(key, format!("mg {name} N0\r\n").into_bytes()),
        0..12 if !noreply && rng.random_bool(0.3) => return own_meta_storage(client, kind, key, rng),
        16.. if !noreply && rng.random_bool(0.5) => {
            let mode = *["", " MI", " MD"].choose(rng).expect("some modes");
            // A number among texts would not tell which write it is from.
            let made = if kind == 'n' && rng.random_bool(0.5) { " N0 J50" } else { "" };
            let line = format!("ma {name} D{}{mode}{made}\r\n", rng.random_range(0..30));
            return own_change(key, line.into_bytes());
        }
        0..12 => return own_storage(client, kind, key, noreply, rng),
        12..14 => format!("delete {name}{end}"),
        14..16 => format!("touch {name} {}{end}", ["0", "100000"].choose(rng).expect("two times")),
        _ => {
            let verb = ["incr", "decr"].choose(rng).expect("two verbs");
            format!("{verb} {name} {}{end}", rng.random_range(0..30))
        }
    };
    Asked { bytes: line.into_bytes(), expected: Expected::Fitting { key }, noreply, shared: None }
}

/// A change of a key of one's own that is answered by what fits.
fn own_change(key: Vec<u8>, bytes: Vec<u8>) -> Asked {
    Asked { bytes, expected: Expected::Fitting { key }, noreply: false, shared: None }
}

/// `ms`, in a mode that fits the key.
fn own_meta_storage(client: &mut Client, kind: char, key: Vec<u8>, rng: &mut SmallRng) -> Asked {
    let modes = ["", " MS", " ME", " MR", " MA", " MP"];
    let mode = if matches!(kind, 'p' | 'v') { "" } else { *modes.choose(rng).expect("some modes") };
    let value = own_value(client, kind, &key, rng);
    let (name, flags) = (String::from_utf8_lossy(&key).into_owned(), rng.random_range(0..4u32));
    let mut bytes = format!("ms {name} {} F{flags}{mode}\r\n", value.len()).into_bytes();
    bytes.extend_from_slice(&value);
    bytes.extend_from_slice(b"\r\n");
    own_change(key, bytes)
}

fn own_value(client: &mut Client, kind: char, key: &[u8], rng: &mut SmallRng) -> Vec<u8> {
    if kind == 'n' {
        rng.random_range(0..200u32).to_string().into_bytes()
    } else {
        client.next_value(key, rng)
    }
}

fn own_storage(client: &mut Client, kind: char, key: Vec<u8>, noreply: bool, rng: &mut SmallRng) -> Asked {
    let verbs = ["set", "set", "set", "set", "add", "replace", "append", "prepend", "cas"];
    let verb = if matches!(kind, 'p' | 'v') { "set" } else { *verbs.choose(rng).expect("some verbs") };
    let value = own_value(client, kind, &key, rng);
    let flags = rng.random_range(0..4u32);
    let token = client.tokens.of(&key).unwrap_or_else(|| rng.random_range(1..50));
    let words = if verb == "cas" { format!("{} {token}", value.len()) } else { value.len().to_string() };
    let bytes = storage(verb, &key, flags, &words, noreply, &value);
    let expected = match verb {
        "cas" => Expected::FittingCas { key, stored: (value, flags), token },
        _ => Expected::Fitting { key },
    };
    Asked { bytes, expected, noreply, shared: None }
}

fn shared_write(client: &mut Client, rng: &mut SmallRng) -> Asked {
    let key = shared_key(client, rng);
    let name = String::from_utf8_lossy(&key).into_owned();
    let noreply = rng.random_bool(0.1);
    let end = if noreply { " noreply\r\n" } else { "\r\n" };
    let mut shared = None;
    let (bytes, lines): (_, &[&str]) = match rng.random_range(0..10) {
        0..2 => {
            let verb = if rng.random_bool(0.5) { "add" } else { "replace" };
            let value = client.next_value(&key, rng);
            let bytes = storage(verb, &key, 0, &value.len().to_string(), noreply, &value);
            shared = Some(SharedWrite { key, value: Some(value), is_conditional: true });
            (bytes, &["STORED\r\n", "NOT_STORED\r\n"])
        }
        2..7 => {
            let value = client.next_value(&key, rng);
            let words = value.len().to_string();
            let bytes = storage("set", &key, 0, &words, noreply, &value);
            shared = Some(SharedWrite { key, value: Some(value), is_conditional: false });
            (bytes, &["STORED\r\n"])
        }
        7..9 => {
            shared = Some(SharedWrite { key, value: None, is_conditional: false });
            (format!("delete {name}{end}").into_bytes(), &["DELETED\r\n", "NOT_FOUND\r\n"])
        }
        _ => (format!("touch {name} 0{end}").into_bytes(), &["TOUCHED\r\n", "NOT_FOUND\r\n"]),
    };
    Asked { bytes, expected: Expected::OneOf(lines), noreply, shared }
}

/// What an empty memcached answers, the proxy must answer: nobody stores the keys of these lines.
fn mistake(rng: &mut SmallRng) -> Asked {
    const BLOCKS: [&str; 4] = [
        "set a 0 0 3\r\nabcd\r\n",
        "set a 0 0 3 noreply\r\nabcd\r\n",
        "set a 0 0 2\r\nabc\r\n",
        "add a 0 0 abc\r\nabc\r\n",
    ];
    let line = match rng.random_range(0..4) {
        0 => (*BLOCKS.choose(rng).expect("some blocks")).to_owned(),
        1 => format!("get b {}\r\n", "k".repeat(251)),
        _ => requests::odd_line(rng).to_owned(),
    };
    let mut answer = Vec::new();
    Memcached::default().handle_bytes(&mut Connection::default(), line.as_bytes(), &mut answer);
    exactly(line.into_bytes(), answer)
}

fn too_large(value_bytes_max: usize, rng: &mut SmallRng) -> Asked {
    let value = vec![b'x'; value_bytes_max + rng.random_range(1..3000)];
    let bytes = storage("set", b"big", 0, &value.len().to_string(), false, &value);
    exactly(bytes, TOO_LARGE.to_vec())
}

pub(super) fn exactly(bytes: Vec<u8>, answer: Vec<u8>) -> Asked {
    Asked { bytes, noreply: answer.is_empty(), expected: Expected::Exactly(answer), shared: None }
}

fn storage(verb: &str, key: &[u8], flags: u32, words: &str, noreply: bool, value: &[u8]) -> Vec<u8> {
    let end = if noreply { " noreply\r\n" } else { "\r\n" };
    let key = String::from_utf8_lossy(key);
    let mut bytes = format!("{verb} {key} {flags} 0 {words}{end}").into_bytes();
    bytes.extend_from_slice(value);
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// `n`: numbers; `t`: text; `p`: text that is only set, deleted and touched; `v`: the same, and made empty where it is missed.
fn any_kind(rng: &mut SmallRng) -> char {
    *['n', 'n', 'n', 't', 't', 't', 't', 'p', 'p', 'p', 'v', 'v'].choose(rng).expect("some kinds")
}

fn own_key(client: &Client, kind: char, rng: &mut SmallRng) -> Vec<u8> {
    format!("own-{}-{kind}{}", client.number, rng.random_range(0..OWN_KEYS)).into_bytes()
}

fn shared_key(client: &Client, rng: &mut SmallRng) -> Vec<u8> {
    let count = if client.nature.races { RACED_KEYS } else { SHARED_KEYS };
    format!("shared-{}", rng.random_range(0..count)).into_bytes()
}
