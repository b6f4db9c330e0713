//! What those call an `mg` who share the message of another (`servers/pipeline/reads.rs`).
//!
//! ```text
//!   asked once:  mg a v O1      VA 3 O1 …   the first reads it as it is
//!                               VA 3 O9 …   who called it O9 reads this
//! ```
//!
//! Of an item that is marked as stale memcached makes the first that asks the one who is to fetch it anew (flag `W`), and says to the others
//! that this one has been found (`Z`). So do the others read it here.
//!
//! [`Opaques`] owns the opaques, by the numbers of the requests. It learns of each when a message is shared, and writes the reply anew.

use crate::{wire::ids::RequestKey, wire::tagged::Tagged};
use weir_protocol::{Meta, Reply, Status};

/// Opaques of requests that share a message.
#[derive(Debug, Default)]
pub(crate) struct Opaques {
    /// In the place with the request's number. What stands in the others belongs to earlier ones.
    of: Vec<Opaque>,
}

/// A word with an opaque, its `O` included; empty if there is none.
#[derive(Clone, Copy, Debug, Default)]
struct Opaque {
    bytes: [u8; 32],
    len: u8,
}

impl Opaque {
    fn of(meta: &Meta<'_>) -> Self {
        let mut opaque = Self::default();
        if let Some(word) = meta.flags().find(|word| word[0] == b'O')
            && let Some(room) = opaque.bytes.get_mut(..word.len())
        {
            room.copy_from_slice(word);
            opaque.len = u8::try_from(word.len()).expect("it is at most as long as the room for it");
        }
        opaque
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl Opaques {
    /// The request shares a message, and calls it as `meta` says.
    pub(super) fn note(&mut self, key: RequestKey, meta: &Meta<'_>) {
        if self.of.len() <= key.index() {
            self.of.resize_with(key.index() + 1, Opaque::default);
        }
        self.of[key.index()] = Opaque::of(meta);
    }

    /// The reply to another one's message as the request that shares it reads it; `None` if it is the same.
    pub(super) fn write_anew(&self, key: RequestKey, reply: Reply, bytes: &[u8]) -> Option<Tagged> {
        let opaque = self.of.get(key.index()).map_or(&[][..], Opaque::as_slice);
        write_anew(opaque, reply, bytes)
    }

    /// Frees the memory.
    pub(super) fn give_memory_back(&mut self) {
        self.of = Vec::new();
    }
}

fn write_anew(opaque: &[u8], reply: Reply, bytes: &[u8]) -> Option<Tagged> {
    let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'))?;
    let first = match reply.status {
        Status::MetaValue => 2,
        Status::MetaDone | Status::MetaMiss => 1,
        _ => return None,
    };
    let words = || bytes[..end].split(|byte| *byte == b' ').enumerate();
    let is_opaque = |(number, word): &(usize, &[u8])| *number >= first && word.starts_with(b"O");
    let is_win = |(number, word): &(usize, &[u8])| *number >= first && *word == b"W";
    let is_won = words().any(|word| is_win(&word));
    if !is_won && words().find(is_opaque).is_none_or(|(_, word)| word == opaque) {
        return None;
    }
    let mut line: Vec<&[u8]> = Vec::new();
    for word in words().filter(|word| !is_win(word)) {
        line.push(if is_opaque(&word) { opaque } else { word.1 });
    }
    if is_won {
        // memcached writes it in front of the mark of a stale item.
        let at = line.len() - usize::from(line.last() == Some(&&b"X"[..]));
        line.insert(at, b"Z");
    }
    let out = [&line.join(&b' ')[..], &bytes[end..]].concat();
    Some(Tagged::new(reply, bytes.len(), out, Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_protocol::{Expected, ReplyScanner};

    fn read_by(opaque: &str, line: &str) -> String {
        let bytes = format!("{line}\r\n").replace('/', "\r\n");
        let scan = |bytes: &[u8]| ReplyScanner::default().scan(Expected::Meta, bytes);
        let reply = scan(bytes.as_bytes()).expect("a reply").expect("a whole one");
        let Some(anew) = write_anew(opaque.as_bytes(), reply, bytes.as_bytes()) else {
            return "as it is".into();
        };
        assert_eq!(scan(&anew.bytes), Ok(Some(anew.reply)), "it is a reply like any");
        String::from_utf8(anew.bytes).expect("text").trim_end().replace("\r\n", "/")
    }

    #[test]
    fn each_reads_its_own_opaque() {
        assert_eq!(read_by("O22", "VA 10 s10 O1 t-1/VA 1 O1/x"), "VA 10 s10 O22 t-1/VA 1 O1/x");
        assert_eq!(read_by("O22", "HD kO1 O1"), "HD kO1 O22");
        assert_eq!(read_by("O", "EN O1 kW"), "EN O kW");
        for line in ["VA 2 O1/O2", "HD O1 X", "EN O1", "SERVER_ERROR O2", "CLIENT_ERROR W", "HD k7 f0"] {
            assert_eq!(read_by("O1", line), "as it is", "{line}");
        }
        assert_eq!(read_by("", "VA 0 k1/"), "as it is");
    }

    #[test]
    fn one_alone_is_to_fetch_a_stale_item_anew() {
        assert_eq!(read_by("", "VA 3 c5 X W/abc"), "VA 3 c5 Z X/abc");
        assert_eq!(read_by("O2", "HD O1 X W"), "HD O2 Z X");
        assert_eq!(read_by("O2", "HD O1 W"), "HD O2 Z");
        assert_eq!(read_by("O1", "HD O1 Z X"), "as it is");
    }
}
