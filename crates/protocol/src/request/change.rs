//! Which requests may change an item.
//!
//! A session counts its changes: what it sent before one must not be asked a second time behind it, because it would see the change. So
//! everything counts after which a server may hold something else, or for another time: a new value, none, another time to live, a mark.
//!
//! | request | changes |
//! |---|---|
//! | `get`, `gets`, `me` | nothing |
//! | `gat`, `gats` | the time to live |
//! | `mg` | nothing, unless it has another flag than those of [`READING`]: `N` makes the item, `T` sets its time to live, `R` gives out who fetches it anew |
//! | `set` … `cas`, `delete`, `incr`, `decr`, `touch`, `ms`, `md`, `ma`, `flush_all`, commands to whole servers | items, whatever their flags |
//! | `mn`, `stats`, `version`, `verbosity`, `quit` | nothing |

use super::command::Request;
use super::meta::{Meta, MetaVerb};
use super::retrieval::RetrievalVerb;

/// The flags of `mg` that change nothing. Most only ask: for the value and what belongs to it (`c` `f` `h` `l` `s` `t` `v`), for the key
/// and how it is written (`b` `k`), for silence (`q`), not to count as a use (`u`). The others are passed over by servers (`O` `P` `L`). A
/// flag that is not known may do anything.
const READING: &[u8] = b"bcfhklqstuvOPL";

impl Request<'_> {
    /// Whether a server may hold something else once it has carried this out.
    #[inline(always)]
    pub fn may_change_items(&self) -> bool {
        match self {
            Self::Retrieval(retrieval) => matches!(retrieval.verb, RetrievalVerb::Gat | RetrievalVerb::Gats),
            Self::Meta(meta) => meta.may_change_items(),
            Self::Storage(_) | Self::Deletion(_) | Self::Arithmetic(_) | Self::Touch(_) => true,
            // With less memory a server drops items.
            Self::FlushAll { .. } | Self::ServerCommand { .. } => true,
            Self::MetaNoop | Self::Stats { .. } | Self::Version | Self::Verbosity { .. } | Self::Quit => {
                false
            }
        }
    }
}

impl Meta<'_> {
    /// The same, of one in the meta protocol.
    pub fn may_change_items(&self) -> bool {
        match self.verb {
            MetaVerb::Set | MetaVerb::Delete | MetaVerb::Arithmetic => true,
            MetaVerb::Get => !self.flags().all(|word| READING.contains(&word[0])),
            MetaVerb::Debug => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Limits, Parsed, RequestParser};

    fn may_change(text: &str) -> bool {
        let limits = Limits { flush_allowed: true, ..Limits::default() };
        match RequestParser::new(limits).parse(text.as_bytes()) {
            Parsed::Request { request, len } => {
                assert_eq!(len, text.len(), "{text:?}");
                request.may_change_items()
            }
            other => panic!("{text:?} is {other:?}"),
        }
    }

    #[test]
    fn every_classic_command_is_recognised() {
        for text in ["get a", "get a b", "gets a", "bget a", "stats", "version", "verbosity 1", "quit", "mn"]
        {
            assert!(!may_change(&format!("{text}\r\n")), "{text}");
        }
        for text in [
            "gat 0 a",
            "gats 10 a b",
            "set a 0 0 1\r\nx",
            "add a 0 0 1\r\nx",
            "replace a 0 0 1\r\nx",
            "append a 0 0 1\r\nx",
            "prepend a 0 0 1\r\nx",
            "cas a 0 0 1 7\r\nx",
            "set a 0 0 1 noreply\r\nx",
            "delete a",
            "incr a 1",
            "decr a 1",
            "touch a 0",
            "flush_all",
            "flush_all 10",
        ] {
            assert!(may_change(&format!("{text}\r\n")), "{text}");
        }
    }

    /// Every meta verb with every letter as a flag, alone and behind one that only asks, with and without a token.
    #[test]
    fn every_flag_of_every_meta_verb_is_recognised() {
        for flag in (b'a'..=b'z').chain(b'A'..=b'Z').map(char::from) {
            for words in [format!("{flag}"), format!("v {flag}30"), format!("{flag}0 k")] {
                // By memcached's protocol text. `E`, `I` and `x`, and letters without a meaning, are not known of `mg`.
                let reads = "bcfhklqstuvOPL".contains(flag);
                assert_eq!(may_change(&format!("mg YQ== {words}\r\n")), !reads, "mg {words}");
                assert!(!may_change(&format!("me YQ== {words}\r\n")), "me {words}");
                assert!(may_change(&format!("ms YQ== 1 {words}\r\nx\r\n")), "ms {words}");
                assert!(may_change(&format!("md YQ== {words}\r\n")), "md {words}");
                assert!(may_change(&format!("ma YQ== {words}\r\n")), "ma {words}");
            }
        }
        assert!(!may_change("mg a\r\n") && !may_change("me a\r\n"));
        assert!(may_change("md a\r\n") && may_change("ma a\r\n") && may_change("ms a 0\r\n\r\n"));
    }
}
