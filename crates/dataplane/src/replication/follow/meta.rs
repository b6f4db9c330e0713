//! What the other replicas learn of a meta command that one of them decided.
//!
//! | decided | the others are sent |
//! |---|---|
//! | `ms` with `ME`, `MR`, or a token | `ms` of the same item: its flags, time to live and value |
//! | `ms` with `MA`, `MP` | the same |
//! | `ma`; `ms` with `N` or `q` | what the decider then holds; `delete` if it holds nothing |
//! | `md`; `ms` with `I` or a flag that is not known; a long value | `delete` |
//!
//! What `ma` makes depends on what was there, and a follower may lack it. So the decider is asked for the item right behind the command, in
//! the same go. The others are sent what it says: the number, the flags, and less than the rest of the time to live. The key is locked from
//! the command until they are sent it, so no write comes between. A quiet command that changed something says nothing, as one that did not:
//! there, too, the item tells.
//!
//! An item that is marked as stale, or is there for somebody who fetches it, is no copy to be spread: the others forget the key.

use super::{Follow, MESSAGE_BYTES_MAX};
use crate::wire::key::write_meta;
use weir_protocol::{Expected, Meta, MetaVerb};

/// The number of the part that asks the decider what it holds, behind the one that asks it for the write.
pub(crate) const ITEM_PART: u32 = 1;

/// How `ms` was to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The item takes the place of another, or of none.
    Whole,
    Append,
    Prepend,
}

impl Follow {
    pub(super) fn of_meta(meta: Meta<'_>) -> Self {
        match meta.verb {
            MetaVerb::Arithmetic => Self::Copy,
            MetaVerb::Set if meta.block.len() <= MESSAGE_BYTES_MAX => Self::of_set(meta),
            _ => Self::Forget,
        }
    }

    fn of_set(meta: Meta<'_>) -> Self {
        let (mut mode, mut has_reply, mut kept) = (Mode::Whole, true, Vec::new());
        for word in meta.flags() {
            match (word[0], &word[1..]) {
                (b'M', [b'A' | b'a']) => mode = Mode::Append,
                (b'M', [b'P' | b'p']) => mode = Mode::Prepend,
                (b'M', [b'E' | b'e' | b'R' | b'r' | b'S' | b's']) => {}
                (b'F' | b'T' | b'b', _) => kept.extend([b" ", word].concat()),
                // The reply is the decider's, and so is the token.
                (b'c' | b'C' | b'E' | b'k' | b'O' | b's' | b'P' | b'L', _) => {}
                (b'N' | b'q', _) => has_reply = false,
                _ => return Self::Forget,
            }
        }
        if !has_reply {
            return Self::Copy;
        }
        kept.extend_from_slice(match mode {
            Mode::Whole => b"",
            Mode::Append => b" MA",
            Mode::Prepend => b" MP",
        });
        let mut bytes = Vec::new();
        // Nobody repeats the key: that was not kept.
        write_meta(Meta { flags: kept.trim_ascii_start(), ..meta }, &mut bytes);
        Self::Message { bytes, expected: Expected::Meta }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_protocol::{Limits, Parsed, RequestParser};

    /// What the others are sent; `copy`, or `delete`.
    fn follow(text: &str) -> String {
        let Parsed::Request { request, .. } = RequestParser::new(Limits::default()).parse(text.as_bytes())
        else {
            panic!("{text:?} is no request")
        };
        match Follow::of(request) {
            Follow::Message { bytes, expected: Expected::Meta } => String::from_utf8(bytes).expect("text"),
            Follow::Copy => "copy".to_owned(),
            Follow::Forget => "delete".to_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_item_is_stored_as_it_was_and_what_made_it_conditional_is_not_said_again() {
        for mode in ["ME", "MR", "Me", "Mr", "C7", "E9", "MS C7", "C7 E9 c k O1 s"] {
            assert_eq!(follow(&format!("ms k 1 {mode} F7 T60\r\nx\r\n")), "ms k 1 F7 T60\r\nx\r\n", "{mode}");
        }
        assert_eq!(follow("ms a2tr 1 b ME\r\nx\r\n"), "ms a2tr 1 b\r\nx\r\n");
        assert_eq!(follow("ms k 1 MA c\r\nx\r\n"), "ms k 1 MA\r\nx\r\n");
        assert_eq!(follow("ms k 1 T9 Mp\r\nx\r\n"), "ms k 1 T9 MP\r\nx\r\n");
    }

    #[test]
    fn what_depends_on_what_was_there_is_copied_and_what_is_not_known_is_forgotten() {
        for text in ["ma k", "ma k N0 J5", "ma k q MD D3", "ma k C7 v", "ma k zzz"] {
            assert_eq!(follow(&format!("{text}\r\n")), "copy", "{text}");
        }
        assert_eq!(follow("ms k 1 MA N30\r\nx\r\n"), "copy");
        assert_eq!(follow("ms k 1 ME q\r\nx\r\n"), "copy");
        for text in ["ms k 1 I C7", "ms k 1 MX", "ms k 1 x", "ms k 1 q I"] {
            assert_eq!(follow(&format!("{text}\r\nx\r\n")), "delete", "{text}");
        }
        for text in ["md k C7", "md k I T30", "md k x"] {
            assert_eq!(follow(&format!("{text}\r\n")), "delete", "{text}");
        }
        let long = "x".repeat(MESSAGE_BYTES_MAX);
        assert_eq!(follow(&format!("ms k {} ME\r\n{long}\r\n", long.len())), "delete");
    }
}
