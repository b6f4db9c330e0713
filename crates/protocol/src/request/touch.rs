//! `touch <key> <exptime> [noreply]`.

use super::refused::Refused;
use super::words::{end_line, is_noreply, too_long_for_key, write_words};
use crate::{Refusal, number, tokens::Tokens};

/// A request to set a key's exptime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Exptime, as written.
    pub exptime: &'a [u8],
    /// No reply is wanted.
    pub noreply: bool,
}

impl Touch<'_> {
    /// Appends the request to `out` as a client would send it.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        write_words(out, &[b"touch", self.key, self.exptime]);
        end_line(out, self.noreply);
    }
}

pub(super) fn parse(tokens: Tokens<'_>) -> Result<Touch<'_>, Refused> {
    let Some(([key, exptime], last)) = tokens.with_optional() else { return Err(Refused::UNKNOWN) };
    let noreply = is_noreply(last.unwrap_or(exptime));
    if too_long_for_key(key) {
        return Err(Refused::new(Refusal::BadCommandLine, noreply));
    }
    if number::signed(exptime).is_none() {
        return Err(Refused::new(Refusal::BadExptime, noreply));
    }
    Ok(Touch { key, exptime, noreply })
}
