//! `incr <key> <delta> [noreply]`, `decr <key> <delta> [noreply]`.

use super::refused::Refused;
use super::words::{end_line, is_noreply, too_long_for_key, write_words};
use crate::{Refusal, number, tokens::Tokens};

/// The commands of this family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArithmeticVerb {
    /// Add, wrapping at 64 bits.
    Incr,
    /// Subtract, stopping at 0.
    Decr,
}

impl ArithmeticVerb {
    /// The word on the wire.
    pub const fn as_bytes(self) -> &'static [u8] {
        match self {
            Self::Incr => b"incr",
            Self::Decr => b"decr",
        }
    }
}

/// A request to change a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic<'a> {
    /// Which command it is.
    pub verb: ArithmeticVerb,
    /// The key.
    pub key: &'a [u8],
    /// By how much, as written.
    pub delta: &'a [u8],
    /// No reply is wanted.
    pub noreply: bool,
}

impl Arithmetic<'_> {
    /// Appends the request to `out` as a client would send it.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        write_words(out, &[self.verb.as_bytes(), self.key, self.delta]);
        end_line(out, self.noreply);
    }
}

pub(super) fn parse(verb: ArithmeticVerb, tokens: Tokens<'_>) -> Result<Arithmetic<'_>, Refused> {
    let Some(([key, delta], last)) = tokens.with_optional() else { return Err(Refused::UNKNOWN) };
    let noreply = is_noreply(last.unwrap_or(delta));
    if too_long_for_key(key) {
        return Err(Refused::new(Refusal::BadCommandLine, noreply));
    }
    if number::unsigned(delta).is_none() {
        return Err(Refused::new(Refusal::BadDelta, noreply));
    }
    Ok(Arithmetic { verb, key, delta, noreply })
}
