//! The meta commands: `mg <key> <flag>*`, `ms <key> <datalen> <flag>*` with a data block, `md <key> <flag>*`, `ma <key> <flag>*`,
//! `me <key> <flag>*`, and `mn`.
//!
//! What the flags mean, and whether they are right, is for the server to say: they are passed on as they were written, and so
//! are flags that this code has never heard of. Only what a proxy must know is read here: the key, whether it is base64, whether
//! the request is quiet, and whether it could be decided differently by different servers.
//!
//! A key that cannot be read is refused here, in memcached's words: who cannot tell which key it is cannot place it.

use super::refused::Refused;
use super::words::{LENGTH_MAX, too_long_for_key, write_optional, write_words};
use crate::{Base64Key, Refusal, number, tokens::Tokens};

/// The commands of this family, but for `mn`, which is [`Request::MetaNoop`](crate::Request::MetaNoop).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaVerb {
    /// `mg`.
    Get,
    /// `ms`.
    Set,
    /// `md`.
    Delete,
    /// `ma`.
    Arithmetic,
    /// `me`.
    Debug,
}

impl MetaVerb {
    /// The word on the wire.
    pub const fn as_bytes(self) -> &'static [u8] {
        match self {
            Self::Get => b"mg",
            Self::Set => b"ms",
            Self::Delete => b"md",
            Self::Arithmetic => b"ma",
            Self::Debug => b"me",
        }
    }
}

/// A meta request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta<'a> {
    /// Which command it is.
    pub verb: MetaVerb,
    /// The key, as written: base64 if there is a flag `b`.
    pub key: &'a [u8],
    /// What follows the key, and for `ms` the length, up to the end of the line.
    pub flags: &'a [u8],
    /// For `ms` the data block with the two bytes behind it, whatever they are: whether they end a line is for the server to say,
    /// which looks at the flags first. Empty for the others.
    pub block: &'a [u8],
}

impl<'a> Meta<'a> {
    /// The flags, each with its token.
    pub fn flags(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        Tokens::new(self.flags)
    }

    fn has(&self, flag: u8) -> bool {
        self.flags().any(|word| word[0] == flag)
    }

    /// Whether an unremarkable reply is not wanted. Which that is depends on the command and on the server's version.
    pub fn is_quiet(&self) -> bool {
        self.has(b'q')
    }

    /// Whether the key is written in base64. `me` looks for the flag in the first place only.
    pub fn is_base64(&self) -> bool {
        match self.verb {
            MetaVerb::Debug => self.flags().next() == Some(b"b"),
            _ => self.has(b'b'),
        }
    }

    /// Why a request with a key in base64 is refused, if it is: the key cannot be read, or is to be repeated twice, which no proxy can ask
    /// for in the client's place.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        if !self.is_base64() {
            return None;
        }
        let key = Base64Key::decode(self.key);
        if self.verb == MetaVerb::Debug {
            // The reply repeats the key as it is: a line ending in it would forge the beginning of another reply.
            let is_harmless = key.is_some_and(|key| !key.as_slice().contains(&b'\n'));
            return (!is_harmless).then_some(Refusal::BadCommandLine);
        }
        let is_sound = key.is_some() && self.flags().filter(|word| word[0] == b'k').nth(1).is_none();
        (!is_sound).then(|| self.mistake())
    }

    /// What memcached says of such a request. It looks at the number of flags, at each flag in turn, at their tokens, and then at the key.
    #[cold]
    fn mistake(&self) -> Refusal {
        let is_get_or_set = matches!(self.verb, MetaVerb::Get | MetaVerb::Set);
        if self.flags().count() > FLAGS_MAX {
            return if is_get_or_set { Refusal::FlagsTooLong } else { Refusal::TooManyFlags };
        }
        if !is_get_or_set {
            return Refusal::BadFlags;
        }
        let mut seen = [false; 256];
        let unknown_or_again = self.flags().find_map(|word| {
            let is_again = std::mem::replace(&mut seen[usize::from(word[0])], true);
            let is_known = FLAGS.contains(&word[0]);
            if is_again { Some(Refusal::DuplicateFlag) } else { (!is_known).then_some(Refusal::InvalidFlag) }
        });
        // Of several bad tokens the last is reported.
        let bad_tokens = self.flags().filter_map(|word| {
            let token = &word[1..];
            match word[0] {
                b'C' if number::cas_token(token).is_none() => Some(Refusal::BadToken),
                b'N' | b'R' | b'T' if number::signed(token).is_none() => Some(Refusal::BadToken),
                b'D' if number::cas_token(token).is_none() => Some(Refusal::BadDeltaToken),
                b'J' if number::cas_token(token).is_none() => Some(Refusal::BadInitialToken),
                b'M' if token.len() != 1 => Some(Refusal::BadModeToken),
                _ => None,
            }
        });
        unknown_or_again.or(bad_tokens.last()).unwrap_or(Refusal::UndecodableKey)
    }

    /// Whether it is an `mg` that changes nothing, and in which no server finds a mistake: each flag is one that only asks, stands there
    /// once, and an opaque is no longer than memcached takes. One with a control character is read otherwise by some: memcached ends a line
    /// at a zero byte.
    pub fn is_sound_read(&self) -> bool {
        let mut seen = 0_u128;
        let mut is_first = |letter: u8| {
            let bit = 1_u128.checked_shl(u32::from(letter)).unwrap_or(0);
            let is_first = seen & bit == 0;
            seen |= bit;
            is_first
        };
        let is_sound = |word: &[u8]| word.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
        self.verb == MetaVerb::Get
            && !self.may_change_items()
            && is_sound(self.key)
            && self.flags.split(|byte| *byte == b' ').all(is_sound)
            && self
                .flags()
                .all(|word| is_first(word[0]) && (word[0] != b'O' || word.len() <= OPAQUE_WORD_BYTES_MAX))
    }

    /// Whether the reply repeats the key.
    pub fn echoes_key(&self) -> bool {
        self.verb == MetaVerb::Debug || self.has(b'k')
    }

    /// Whether a miss creates the key (`N` with a number).
    pub fn may_create(&self) -> bool {
        matches!(self.verb, MetaVerb::Get | MetaVerb::Arithmetic)
            && self.flags().any(|word| word[0] == b'N' && number::signed(&word[1..]).is_some())
    }

    /// Whether servers that hold the same value under different cas tokens, or that know other flags, may decide differently.
    pub fn is_conditional(&self) -> bool {
        match self.verb {
            MetaVerb::Get | MetaVerb::Debug => false,
            MetaVerb::Arithmetic => true,
            MetaVerb::Set => self.flags().any(|word| match word[0] {
                b'b' | b'c' | b'F' | b'k' | b'O' | b'q' | b'T' | b'P' | b'L' => false,
                b'M' => word != b"MS" && word != b"Ms",
                _ => true,
            }),
            MetaVerb::Delete => {
                self.flags().any(|word| !matches!(word[0], b'b' | b'k' | b'O' | b'q' | b'P' | b'L'))
            }
        }
    }

    /// Appends the request to `out` as a client would send it.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.key.len() + self.flags.len() + self.block.len() + 32);
        write_words(out, &[self.verb.as_bytes(), self.key]);
        if self.verb == MetaVerb::Set {
            let mut length = itoa::Buffer::new();
            out.push(b' ');
            out.extend_from_slice(length.format(self.block.len().saturating_sub(2)).as_bytes());
        }
        write_optional(out, self.flags);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(self.block);
    }
}

/// What memcached 1.6.18 takes for a flag of `mg` or `ms`.
const FLAGS: &[u8] = b"CDFIJLMNOPRTbcfhklqstuv";

/// memcached refuses a longer word with an opaque, its `O` included.
const OPAQUE_WORD_BYTES_MAX: usize = 32;

/// memcached refuses more flags than this to `mg`, `md` and `ma`.
const FLAGS_MAX: usize = 17;

/// memcached refuses more flags than this to `ms`, and then reads the data block as the next command.
const SET_FLAGS_MAX: usize = 16;

/// The request, and for `ms` how long the value will be, which it is still without.
pub(super) fn parse(verb: MetaVerb, mut tokens: Tokens<'_>) -> Result<(Meta<'_>, Option<usize>), Refused> {
    let Some(key) = tokens.next() else {
        return if verb == MetaVerb::Debug {
            Err(Refused::new(Refusal::BadCommandLine, false))
        } else {
            Err(Refused::UNKNOWN)
        };
    };
    if too_long_for_key(key) {
        return Err(Refused::new(Refusal::BadCommandLine, false));
    }
    if verb != MetaVerb::Set {
        let meta = Meta { verb, key, flags: tokens.rest(), block: &[] };
        return match meta.refusal() {
            Some(refusal) => Err(Refused::new(refusal, false)),
            None => Ok((meta, None)),
        };
    }
    let Some(length) = tokens.next() else { return Err(Refused::new(Refusal::BadCommandLine, false)) };
    if tokens.count() > SET_FLAGS_MAX {
        return Err(Refused::new(Refusal::TooManyFlags, false));
    }
    match number::signed_32(length).filter(|length| (0..=LENGTH_MAX).contains(length)) {
        Some(length) => {
            let length = usize::try_from(length).expect("a length between 0 and INT_MAX - 2 fits usize");
            Ok((Meta { verb, key, flags: tokens.rest(), block: &[] }, Some(length)))
        }
        None => Err(Refused::new(Refusal::BadCommandLine, false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sound_read_only_asks_and_is_no_mistake() {
        let is_sound =
            |verb, flags: &str| Meta { verb, key: b"a", flags: flags.as_bytes(), block: b"" }.is_sound_read();
        let opaque = format!("O{}", "1".repeat(31));
        for flags in ["", "q", "v q", "b c f h k l q s t u v O7 P L", &opaque] {
            assert!(is_sound(MetaVerb::Get, flags), "mg {flags}");
        }
        for flags in [
            "v v",
            "q q",
            "O1 O2",
            "N30",
            "T0",
            "R5",
            "E1",
            "C1",
            "~",
            "\u{e9}",
            "O\0 q",
            "v\r q",
            &(opaque + "1"),
        ] {
            assert!(!is_sound(MetaVerb::Get, flags), "mg {flags}");
        }
        assert!(!is_sound(MetaVerb::Debug, "q") && !is_sound(MetaVerb::Delete, "q"));
        let odd = Meta { verb: MetaVerb::Get, key: b"a\0b", flags: b"q", block: b"" };
        assert!(!odd.is_sound_read());
    }
}
