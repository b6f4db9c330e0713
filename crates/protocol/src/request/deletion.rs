//! `delete <key> [0] [noreply]`.

use super::refused::Refused;
use super::words::{end_line, too_long_for_key, write_words};
use crate::{Refusal, tokens::Tokens};

/// A request to delete a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deletion<'a> {
    /// The key.
    pub key: &'a [u8],
    /// No reply is wanted.
    pub noreply: bool,
}

impl Deletion<'_> {
    /// Appends the request to `out` as a client would send it.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        write_words(out, &[b"delete", self.key]);
        end_line(out, self.noreply);
    }
}

pub(super) fn parse(mut tokens: Tokens<'_>) -> Result<Deletion<'_>, Refused> {
    let (Some(key), first, second) = (tokens.next(), tokens.next(), tokens.next()) else {
        return Err(Refused::UNKNOWN);
    };
    if tokens.next().is_some() {
        return Err(Refused::UNKNOWN);
    }
    // A hold time of 0 is what is left of an old feature; no other is accepted.
    let (valid, noreply) = match (first, second) {
        (None, _) => (true, false),
        (Some(b"0"), None) => (true, false),
        (Some(b"noreply"), None) => (true, true),
        (Some(hold), Some(b"noreply")) => (hold == b"0", true),
        (Some(_), _) => (false, false),
    };
    if !valid {
        return Err(Refused::new(Refusal::BadDelete, noreply));
    }
    if too_long_for_key(key) {
        return Err(Refused::new(Refusal::BadCommandLine, noreply));
    }
    Ok(Deletion { key, noreply })
}
