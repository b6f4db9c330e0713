//! The keys of what a server is asked for: noted with each message, and held against its reply.

use super::Backend;
use crate::{
    servers::part::{Part, Repeated},
    wire::key::{self, Echo, Spelling, WireKey},
    wire::names::Names,
};
use weir_protocol::{Expected, Violation, Whose};

impl Backend {
    /// Adds a key to the message that was begun last: to its bytes and to what its reply is checked against.
    pub(crate) fn push_key(&mut self, key: &[u8]) {
        if self.parts.back().is_some_and(Part::may_be_joined) {
            self.note_in_line(key);
        }
        let out = self.out.end();
        out.push(b' ');
        out.extend_from_slice(key);
        self.note_key(key);
    }

    /// Who repeats the key in the reply to the meta message that was begun last.
    pub(crate) fn expect_echo(&mut self, echo: &Echo) {
        let repeated = match echo {
            Echo::Nobody => return,
            Echo::Server { key, base64 } => {
                self.note_key(key);
                Repeated::ByServer { base64: *base64 }
            }
            Echo::Proxy(spelling) => {
                spelling.parts().iter().for_each(|part| self.note_key(part));
                Repeated::ByProxy
            }
        };
        self.parts.back_mut().expect("a message was begun").set_repeated(repeated);
    }

    fn note_key(&mut self, key: &[u8]) {
        let keys = self.keys.end();
        keys.push(u8::try_from(key.len()).expect("the parser admits no key above 250 bytes"));
        keys.extend_from_slice(key);
        self.parts.back_mut().expect("a message was begun").count_key();
    }

    /// The values must be those of the part's keys, in their order; some may be missing. A meta reply that repeats a key must repeat
    /// the right one.
    pub(super) fn check_keys(&mut self, reply: &[u8]) -> Result<(), Violation> {
        let part = self.parts.front().expect("a reply was scanned for the head");
        self.ordinals.clear();
        let keys = self.keys.as_slice();
        if matches!(part.expected(), Expected::Meta | Expected::MetaThenNoop) {
            if part.repeated() != Repeated::Nothing {
                self.look_at_echo(reply);
            }
            return Ok(());
        }
        let key_count = part.key_count();
        for value in self.scanner.values() {
            let found = &reply[value.key.clone()];
            if self.cursor.find(found, keys, key_count, &mut self.ordinals) == Whose::Others {
                let line = String::from_utf8_lossy(found).into_owned();
                return Err(Violation::UnexpectedLine(format!("VALUE {line}")));
            }
        }
        self.forget_keys_of_head();
        Ok(())
    }

    /// The reply to the head repeats a key, or the proxy is to repeat it.
    #[cold]
    fn look_at_echo(&mut self, reply: &[u8]) {
        let head = self.parts.front_mut().expect("a reply was scanned for the head");
        let mut noted = Names(self.keys.as_slice());
        let key = noted.next().unwrap_or_default();
        if let Repeated::ByServer { base64 } = head.repeated() {
            if let Some(line) = foreign_echo(WireKey { bytes: key, base64 }, reply) {
                head.set_repeated(Repeated::Wrong);
                self.last_trouble = Some(Violation::UnexpectedLine(line));
            }
        } else {
            self.spelling = Spelling::of(key, noted.next().unwrap_or_default());
        }
        self.forget_keys_of_head();
    }
}

/// The line of a reply that repeats another key than the one that was asked for. It is no answer to that request; the replies behind it are
/// as good as before, because its own was framed as it should be.
fn foreign_echo(key: WireKey<'_>, reply: &[u8]) -> Option<String> {
    let line = reply.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut words = line.split(|&byte| byte == b' ');
    let echo = match words.next() {
        Some(b"ME") => words.next(),
        Some(b"CLIENT_ERROR" | b"SERVER_ERROR") => None,
        _ => words.find_map(|word| word.strip_prefix(b"k")),
    }?;
    (!key::is_same(echo, key)).then(|| String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned())
}
