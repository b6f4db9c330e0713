//! One memcached 1.6.18 that speaks the classic text protocol, without sockets and without a clock.
//!
//! [`Memcached`] holds the items, a [`Connection`] the bytes of a command that is not complete. The rules were written
//! from memcached's protocol text and from what the real server answers; `tests/real_memcached.rs` compares the two on
//! random streams. Left out: memory limits and eviction, statistics but for one setting, most of the meta protocol, everything administrative.

mod commands;
mod meta;
mod number;

use std::collections::BTreeMap;

/// What `version` is answered.
pub const VERSION: &str = "1.6.18";

/// The largest item unless an option says otherwise: key, value and memcached's own header together (`-I 1m`).
const ITEM_BYTES_MAX: usize = 1 << 20;

/// What memcached adds to key and value: its header of 48 bytes, 8 for the cas token, a NUL behind the key, and the
/// line ending behind the value.
const ITEM_OVERHEAD_BYTES: usize = 48 + 8 + 1 + 2;

/// Where there is no line ending in this many bytes, only a long `get` may go on.
const LINE_BYTES_MAX: usize = 2048;

/// The items of one server.
#[derive(Clone, Debug)]
pub struct Memcached {
    items: BTreeMap<Vec<u8>, Item>,
    last_cas: u64,
    now_s: u64,
    started_s: u64,
    item_bytes_max: usize,
    /// It stores nothing.
    is_full: bool,
    /// And keeps what it should have replaced.
    keeps_refused: bool,
    /// It leaves out a value whose token `mg` names with `C`, as from 1.6.40 on.
    is_conditional: bool,
}

/// One stored item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// The value.
    pub value: Vec<u8>,
    /// The client's flags.
    pub flags: u32,
    /// The token for `cas`.
    pub cas: u64,
    /// Unix time in seconds at which the item is gone; never if there is none.
    expires_s: Option<u64>,
    /// It is empty, and one client was asked to fetch what belongs there (`mg` with `N`).
    is_awaited: bool,
}

/// One client's connection to a [`Memcached`].
#[derive(Clone, Debug, Default)]
pub struct Connection {
    input: Vec<u8>,
    swallow: usize,
    closed: bool,
}

/// A storage command that waits for its data block.
struct Block {
    command: commands::Store,
    /// Length of the value, without the line ending.
    length: usize,
}

/// What a command line leads to.
enum Next {
    /// It is answered.
    Done,
    /// Its data block follows.
    Block(Block),
    /// A data block follows that nobody wants.
    Swallow(usize),
    /// The connection is closed.
    Close,
}

impl Default for Memcached {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Memcached {
    /// An empty server that was started at this Unix time in seconds.
    pub fn new(started_s: u64) -> Self {
        Self {
            items: BTreeMap::new(),
            last_cas: 0,
            now_s: started_s,
            started_s,
            item_bytes_max: ITEM_BYTES_MAX,
            is_full: false,
            keeps_refused: false,
            is_conditional: false,
        }
    }

    /// Sets the largest item, key and value and header together, as the option `-I` does.
    pub fn with_item_size(mut self, bytes: usize) -> Self {
        self.item_bytes_max = bytes;
        self
    }

    /// Sets whether `mg` with `C` brings a value only if its token is another one, as it does from 1.6.40 on.
    pub fn with_conditional_gets(mut self, is_conditional: bool) -> Self {
        self.is_conditional = is_conditional;
        self
    }

    /// Whether it has no memory for values, as with the option `-M`.
    pub fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Whether it keeps an item that it has no memory to replace, as other servers than memcached may.
    pub fn set_keeps_refused(&mut self, keeps_refused: bool) {
        self.keeps_refused = keeps_refused;
    }

    /// Tells the time, in seconds since 1970.
    pub fn set_time(&mut self, now_s: u64) {
        self.now_s = now_s;
    }

    /// Forgets everything, as a restart does.
    pub fn clear(&mut self) {
        self.items.clear();
    }

    /// Takes bytes from a client and appends what it is answered to `out`.
    pub fn handle_bytes(&mut self, connection: &mut Connection, bytes: &[u8], out: &mut Vec<u8>) {
        if connection.closed {
            return;
        }
        connection.input.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut connection.input);
        let mut at = 0;
        loop {
            let swallowed = connection.swallow.min(input.len() - at);
            connection.swallow -= swallowed;
            at += swallowed;
            match self.command(&input[at..], out) {
                None => break,
                Some((taken, Next::Swallow(length))) => {
                    at += taken;
                    connection.swallow = length;
                }
                Some((_, Next::Close)) => {
                    connection.closed = true;
                    return;
                }
                Some((taken, _)) => at += taken,
            }
        }
        input.drain(..at);
        connection.input = input;
    }

    /// Carries out the command at the front of `input`; returns how many bytes it took, or nothing if it is not
    /// complete.
    fn command(&mut self, input: &[u8], out: &mut Vec<u8>) -> Option<(usize, Next)> {
        let Some(newline) = input.iter().position(|byte| *byte == b'\n') else {
            return (input.len() > LINE_BYTES_MAX && !is_long_get(input))
                .then_some((input.len(), Next::Close));
        };
        let line = match &input[..newline] {
            [line @ .., b'\r'] if !line.is_empty() => line,
            line => line,
        };
        let after = newline + 1;
        let next = commands::carry_out(self, line, out);
        let Next::Block(block) = next else { return Some((after, next)) };
        let data = input[after..].get(..block.length + 2)?;
        match data.split_at(block.length) {
            (value, b"\r\n") => commands::store(self, block.command, value, out),
            _ => commands::answer(out, block.command.noreply, "CLIENT_ERROR bad data chunk"),
        }
        Some((after + data.len(), Next::Done))
    }

    /// The item of a key, unless it has expired.
    pub fn item(&self, key: &[u8]) -> Option<&Item> {
        self.items.get(key).filter(|item| item.expires_s.is_none_or(|expires| expires > self.now_s))
    }

    /// Every item that has not expired, by key.
    pub fn items(&self) -> impl Iterator<Item = (&[u8], &Item)> {
        self.items
            .iter()
            .filter(|(_, item)| item.expires_s.is_none_or(|expires| expires > self.now_s))
            .map(|(key, item)| (key.as_slice(), item))
    }

    /// Stores an item under a new cas token.
    pub fn put(&mut self, key: &[u8], value: Vec<u8>, flags: u32) {
        self.link(key, value, flags, None);
    }

    fn link(&mut self, key: &[u8], value: Vec<u8>, flags: u32, expires_s: Option<u64>) {
        self.last_cas += 1;
        self.items
            .insert(key.to_vec(), Item { value, flags, cas: self.last_cas, expires_s, is_awaited: false });
    }

    /// How long an item that has not expired will live, in seconds; none if for ever.
    fn rest_s(&self, item: &Item) -> Option<u64> {
        item.expires_s.map(|expires_s| expires_s.saturating_sub(self.now_s))
    }

    /// Whether key and value fit the largest item.
    fn fits(&self, key: &[u8], flags: u32, length: usize) -> bool {
        let flags_bytes = if flags == 0 { 0 } else { 4 };
        key.len() + flags_bytes + length + ITEM_OVERHEAD_BYTES <= self.item_bytes_max
    }

    /// When an item with this `exptime` is gone: never for 0, at once if negative, relative up to 30 days, else an
    /// absolute time.
    fn expires(&self, exptime: i32) -> Option<u64> {
        const RELATIVE_MAX_S: i32 = 60 * 60 * 24 * 30;
        match exptime {
            0 => None,
            ..0 => Some(0),
            1..=RELATIVE_MAX_S => Some(self.now_s + u64::from(exptime.unsigned_abs())),
            _ if u64::from(exptime.unsigned_abs()) <= self.started_s => Some(0),
            _ => Some(exptime.unsigned_abs().into()),
        }
    }
}

impl Connection {
    /// Whether the server has closed this connection.
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}

fn is_long_get(input: &[u8]) -> bool {
    let spaces = input.iter().take_while(|byte| **byte == b' ').count();
    let rest = &input[spaces..];
    spaces <= 100 && (rest.starts_with(b"get ") || rest.starts_with(b"gets "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds a dialogue to a fresh server, whole and byte by byte.
    fn check(input: &str, expected: &str) {
        let (mut whole, mut out) = (Memcached::new(1_000_000), Vec::new());
        whole.handle_bytes(&mut Connection::default(), input.as_bytes(), &mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected);
        let (mut bytewise, mut connection, mut out) =
            (Memcached::new(1_000_000), Connection::default(), Vec::new());
        for byte in input.bytes() {
            bytewise.handle_bytes(&mut connection, &[byte], &mut out);
        }
        assert_eq!(String::from_utf8_lossy(&out), expected, "byte by byte");
    }

    #[test]
    fn items_are_stored_and_found() {
        check(
            "get a\r\nset a 5 0 3\r\nabc\r\nget a b a\r\n",
            "END\r\nSTORED\r\nVALUE a 5 3\r\nabc\r\nVALUE a 5 3\r\nabc\r\nEND\r\n",
        );
        check(
            "set a 0 0 1\r\nx\r\ngets a\r\ncas a 0 0 1 1\r\ny\r\ncas a 0 0 1 1\r\nz\r\nget a\r\n",
            "STORED\r\nVALUE a 0 1 1\r\nx\r\nEND\r\nSTORED\r\nEXISTS\r\nVALUE a 0 1\r\ny\r\nEND\r\n",
        );
        check("set n 0 0 2\r\n10\r\ndecr n 1\r\nget n\r\n", "STORED\r\n9\r\nVALUE n 0 2\r\n9 \r\nEND\r\n");
    }

    #[test]
    fn a_bad_block_takes_its_length_and_the_rest_is_a_command() {
        check(
            "set a 0 0 3\r\nabcd\r\nversion\r\n",
            "CLIENT_ERROR bad data chunk\r\nERROR\r\nVERSION 1.6.18\r\n",
        );
        check("set a 0 0 3 noreply\r\nabcd\r\nversion\r\n", "ERROR\r\nVERSION 1.6.18\r\n");
    }

    #[test]
    fn items_are_copied_by_meta_commands() {
        check(
            "set k 7 0 2\r\nab\r\nmg k k v f t\r\nmg n k v f t\r\nms k 1 ME F0\r\nx\r\n",
            "STORED\r\nVA 2 kk f7 t-1\r\nab\r\nEN kn\r\nNS\r\n",
        );
        check(
            "ms n 1 ME F9 T60\r\nx\r\nmg n k v f t\r\nms q abc ME\r\n",
            "HD\r\nVA 1 kn f9 t60\r\nx\r\nCLIENT_ERROR bad command line format\r\n",
        );
    }

    #[test]
    fn a_value_is_left_out_by_its_token_where_that_is_known() {
        for (is_conditional, same) in [(false, "VA 1 c1\r\nx\r\n"), (true, "HD c1\r\n")] {
            let (mut server, mut out) = (Memcached::new(0).with_conditional_gets(is_conditional), Vec::new());
            let input = b"set a 0 0 1\r\nx\r\nmg a C1 c v\r\nmg a C2 c v\r\nmg b C1 c v\r\n";
            server.handle_bytes(&mut Connection::default(), input, &mut out);
            let expected = format!("STORED\r\n{same}VA 1 c1\r\nx\r\nEN\r\n");
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }

    #[test]
    fn items_are_made_and_changed_by_meta_commands() {
        check(
            "mg a N0 v\r\nmg a v N0\r\nmg a\r\nms a 1\r\nx\r\nmg a v N0\r\nmg b N\r\n",
            "VA 0 W\r\n\r\nVA 0 Z\r\n\r\nHD Z\r\nHD\r\nVA 1\r\nx\r\nCLIENT_ERROR bad command line format\r\n",
        );
        check("mg a O7 k\r\nset a 0 0 1\r\nx\r\nmg a k Oab f\r\n", "EN O7 ka\r\nSTORED\r\nHD ka Oab f0\r\n");
        check(
            "ma n\r\nma n N0 J10 D5\r\nma n N0 J7 D5\r\nma n MD D9\r\nmg n v\r\n",
            "NF\r\nHD\r\nHD\r\nHD\r\nVA 2\r\n6 \r\n",
        );
        check(
            "ms k 1 MA\r\nx\r\nms k 1 MR\r\nx\r\nms k 1 MS F3\r\nx\r\nms k 1 MA\r\ny\r\nms k 1 MP\r\nw\r\nget k\r\nma k\r\n",
            "NS\r\nNS\r\nHD\r\nHD\r\nHD\r\nVALUE k 3 3\r\nwxy\r\nEND\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
        );
    }

    #[test]
    fn items_expire() {
        let mut server = Memcached::new(1_000_000);
        let mut out = Vec::new();
        let input =
            b"set r 0 10 1\r\nr\r\nset a 0 9000000 1\r\na\r\nset n 0 -1 1\r\nn\r\nset p 0 3000000 1\r\np\r\n";
        server.handle_bytes(&mut Connection::default(), input, &mut out);
        let mut check = |now: u64, keys: &[&[u8]]| {
            server.set_time(now);
            assert_eq!(server.items().map(|(key, _)| key).collect::<Vec<_>>(), keys);
        };
        check(1_000_009, &[b"a", b"p", b"r"]);
        check(1_000_010, &[b"a", b"p"]);
        check(9_000_000, &[]);
    }

    #[test]
    fn quit_and_long_lines_close() {
        for input in [&b"quit\r\nversion\r\n"[..], &[b'x'; 2049][..], b"GET / HTTP/1.1\r\nversion\r\n"] {
            let (mut connection, mut out) = (Connection::default(), Vec::new());
            Memcached::new(0).handle_bytes(&mut connection, input, &mut out);
            assert!(connection.is_closed() && out.is_empty());
        }
    }
}
