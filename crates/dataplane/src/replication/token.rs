//! cas tokens of keys that have several servers: each names the server that gave it.
//!
//! memcached's cas numbers are small counters, each server's own, so the number of one may by accident be the present one of another.
//! What clients see of a key that has several servers is therefore a token that carries a tag of the server above its number:
//!
//! ```text
//!   bit   63      62 ─────────── 48      47 ──────────────────────── 0
//!         0       tag of its name        the server's own number
//! ```
//!
//! On the way to the server the tag is taken off. A write with a token that is not the present decider's would be decided by a number of
//! somebody else, so it is answered `EXISTS` and no server is asked. Its client reads again, as it does after any other change. Tags are
//! never 0, and a number that has no room below a tag is shown without one, so a write with it is refused, too.
//!
//! Tokens have 63 bits because some clients read them as signed numbers. With 15 bits two servers of a key share a tag once among
//! 32,767 pairs; then a token is worth as much as without tags.
//!
//! Keys with one server keep its numbers.

use crate::{wire::hash::hash, wire::meta_line::meta_line, wire::tagged::Tagged};
use std::borrow::Cow;
use weir_protocol::{Base64Key, Meta, MetaVerb, Reply, Request, Storage, ValueSpan, cas_token};

/// What tells the tokens of one server from those of others. It depends on the server's name alone, so several proxies, and one that
/// is started anew, agree on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u64);

/// How many bits of a token are the server's own number. A server that is written a million times a second takes nine years to fill
/// them.
const NUMBER_BITS: u32 = 48;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;
const TAG_MASK: u64 = 0x7fff;

/// What a write with a token comes to, before anybody is asked.
#[derive(Debug)]
pub(super) enum Judged<'a> {
    /// The decider is asked this.
    Ask(Request<'a>),
    /// The token is not the decider's.
    Exists(Cow<'static, [u8]>),
}

impl Tag {
    pub(crate) fn of(name: &str) -> Self {
        Self((hash(name.as_bytes()) & TAG_MASK).max(1))
    }

    /// What clients see for a number of the server's.
    fn token(self, number: u64) -> u64 {
        // A number without room for a tag is not passed off as another: no server has tag 0.
        let tag = if number > NUMBER_MASK { 0 } else { self.0 };
        tag << NUMBER_BITS | number & NUMBER_MASK
    }

    /// The server's number, if the token is the server's.
    fn number(self, token: u64) -> Option<u64> {
        (token >> NUMBER_BITS == self.0).then_some(token & NUMBER_MASK)
    }

    /// A conditional write as the server with this tag is to be asked for it; `text` is room for what is written anew.
    pub(super) fn judge<'a>(self, request: Request<'a>, text: &'a mut Vec<u8>) -> Judged<'a> {
        match request {
            Request::Storage(storage) => {
                let Some(token) = cas_token(storage.cas) else { return Judged::Ask(request) };
                let Some(number) = self.number(token) else {
                    return Judged::Exists(Cow::Borrowed(b"EXISTS\r\n"));
                };
                push_number(text, number);
                Judged::Ask(Request::Storage(Storage { cas: text, ..storage }))
            }
            Request::Meta(meta) => self.judge_meta(meta, text),
            other => Judged::Ask(other),
        }
    }

    fn judge_meta<'a>(self, meta: Meta<'a>, text: &'a mut Vec<u8>) -> Judged<'a> {
        if !meta.flags().any(|word| matches!(word[0], b'C' | b'E')) {
            return Judged::Ask(Request::Meta(meta));
        }
        let mut is_foreign = false;
        for word in meta.flags() {
            let token = cas_token(&word[1..]);
            let number = token.and_then(|token| self.number(token));
            text.extend_from_slice(if text.is_empty() { b"" } else { b" " });
            match (word[0], number) {
                (flag @ (b'C' | b'E'), Some(number)) => {
                    text.push(flag);
                    push_number(text, number);
                }
                (b'C', None) if token.is_some() => {
                    is_foreign = true;
                    text.push(b'C');
                    push_number(text, NO_NUMBER);
                }
                // What is no number is for the server to refuse, and a number that a client gives to an item (`E`) is its own.
                _ => text.extend_from_slice(word),
            }
        }
        if is_foreign && (is_sound(meta) || meta.flags.len() > UNSOUND_FLAGS_BYTES_MAX) {
            return Judged::Exists(Cow::Owned(meta_line(b"EX", meta)));
        }
        Judged::Ask(Request::Meta(Meta { flags: text, ..meta }))
    }

    /// A retrieval's reply, if it has tokens of keys that have several servers.
    pub(super) fn in_values(
        self,
        (reply, bytes): (Reply, &[u8]),
        values: &[ValueSpan],
        is_replicated: impl Fn(&[u8]) -> bool,
    ) -> Option<Tagged> {
        // All values of a reply have tokens, or none.
        values.first()?.cas?;
        let mut out = Vec::with_capacity(bytes.len() + values.len() * TOKEN_DIGITS_MAX);
        let mut spans = Vec::with_capacity(values.len());
        for value in values {
            let key = &bytes[value.key.clone()];
            let cas = value.cas.map(|number| if is_replicated(key) { self.token(number) } else { number });
            let start = out.len();
            out.extend_from_slice(b"VALUE ");
            out.extend_from_slice(key);
            for number in [Some(u64::from(value.flags)), Some(value.data.len() as u64), cas] {
                out.extend_from_slice(if number.is_some() { b" " } else { b"" });
                number.iter().for_each(|&number| push_number(&mut out, number));
            }
            out.extend_from_slice(b"\r\n");
            let data = out.len();
            out.extend_from_slice(&bytes[value.data.start..value.block.end]);
            let key = start + b"VALUE ".len();
            spans.push(ValueSpan {
                block: start..out.len(),
                key: key..key + value.key.len(),
                data: data..data + value.data.len(),
                flags: value.flags,
                cas,
            });
        }
        out.extend_from_slice(&bytes[reply.last_line..]);
        Some(Tagged::new(reply, bytes.len(), out, spans))
    }

    /// A meta command's reply, if it has a token.
    pub(super) fn in_meta(self, reply: Reply, bytes: &[u8]) -> Option<Tagged> {
        let head = bytes[..reply.answer_len].split(|&byte| byte == b'\n').next()?;
        let head = head.strip_suffix(b"\r").unwrap_or(head);
        let (mut out, mut copied, mut at) = (Vec::new(), 0, 0);
        for (index, word) in head.split(|&byte| byte == b' ').enumerate() {
            if let Some(number) = word.strip_prefix(b"c").filter(|_| index > 0).and_then(cas_token) {
                out.extend_from_slice(&bytes[copied..=at]);
                push_number(&mut out, self.token(number));
                copied = at + word.len();
            }
            at += word.len() + 1;
        }
        if copied == 0 {
            return None;
        }
        out.extend_from_slice(&bytes[copied..]);
        Some(Tagged::new(reply, bytes.len(), out, Vec::new()))
    }
}

/// The number that no item has, as long as clients give none this one (`E`).
const NO_NUMBER: u64 = u64::MAX;

/// No token has more digits.
const TOKEN_DIGITS_MAX: usize = 20;

/// No request that memcached would find nothing wrong with has this many bytes of flags. [`NO_NUMBER`] could make a longer one too long.
const UNSOUND_FLAGS_BYTES_MAX: usize = 1024;

fn push_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(number.to_string().as_bytes());
}

/// Whether memcached finds nothing wrong with a request but its token, so that its answer is known without asking. Where that is not
/// certain, as with flags of later servers, it is asked with a token that nobody has.
fn is_sound(meta: Meta<'_>) -> bool {
    let is_number = |digits: &[u8]| matches!(digits.len(), 1..=9) && digits.iter().all(u8::is_ascii_digit);
    let mut seen = 0_u128;
    let mut is_known = |word: &[u8]| {
        let bit = 1_u128.checked_shl(u32::from(word[0])).unwrap_or(0);
        let is_first = seen & bit == 0;
        seen |= bit;
        is_first
            && match (meta.verb, word[0], &word[1..]) {
                (_, b'C', token) => cas_token(token).is_some(),
                (_, b'b', b"") => Base64Key::decode(meta.key).is_some(),
                (_, b'c' | b'k' | b'q', b"") | (MetaVerb::Set | MetaVerb::Delete, b'I', b"") => true,
                (_, b'O', opaque) => opaque.len() <= OPAQUE_BYTES_MAX,
                (_, b'T', b"-1") => true,
                (_, b'T', digits) | (MetaVerb::Set, b'F', digits) => is_number(digits),
                (MetaVerb::Arithmetic, b'D' | b'J' | b'N', digits) => is_number(digits),
                // `ME` does not look at the token.
                (MetaVerb::Set, b'M', mode) => {
                    matches!(mode, [b'A' | b'a' | b'P' | b'p' | b'R' | b'r' | b'S' | b's'])
                }
                (MetaVerb::Arithmetic, b'M', mode) => {
                    matches!(mode, [b'I' | b'i' | b'+' | b'D' | b'd' | b'-'])
                }
                _ => false,
            }
    };
    meta.flags().all(&mut is_known) && (meta.verb != MetaVerb::Set || meta.block.ends_with(b"\r\n"))
}

/// memcached 1.6.18 refuses a longer opaque.
const OPAQUE_BYTES_MAX: usize = 31;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_protocol::{Expected, ReplyScanner};

    /// Clients hold tokens while proxies of several versions take turns.
    #[test]
    fn what_a_name_comes_to_never_changes() {
        for (name, tag) in [("127.0.0.1:11211", 0x364e), ("cache-a:11211", 0x5a9b), ("s:1", 0x6fd1)] {
            assert_eq!(Tag::of(name), Tag(tag), "{name}");
        }
    }

    fn tag() -> impl Strategy<Value = Tag> {
        (1..=TAG_MASK).prop_map(Tag)
    }

    /// Numbers of all lengths.
    fn number() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0..64_u32).prop_map(|(bits, shift)| bits >> shift)
    }

    fn scan(expected: Expected, bytes: &[u8]) -> (Reply, Vec<ValueSpan>) {
        let mut scanner = ReplyScanner::default();
        let reply = scanner.scan(expected, bytes).expect("a reply").expect("a whole one");
        (reply, scanner.values().to_vec())
    }

    proptest! {
        #[test]
        fn tags_are_never_0_and_leave_the_sign_alone(name in ".{0,60}") {
            prop_assert!((1..=TAG_MASK).contains(&Tag::of(&name).0));
        }

        #[test]
        fn a_token_is_its_own_servers_and_nobody_elses(tag in tag(), other in tag(), number in number()) {
            let token = tag.token(number);
            prop_assert!(i64::try_from(token).is_ok());
            prop_assert_eq!(token & NUMBER_MASK, number & NUMBER_MASK);
            if number > NUMBER_MASK {
                prop_assert_eq!((tag.number(token), other.number(token)), (None, None));
            } else {
                prop_assert_eq!(tag.number(token), Some(number));
                prop_assert_eq!(other.number(token), (tag == other).then_some(number));
            }
        }

        #[test]
        fn values_with_tokens_are_a_reply_like_any(
            tag in tag(),
            items in proptest::collection::vec(
                ("[a-z]{1,9}", any::<bool>(), any::<u32>(), number(), proptest::collection::vec(any::<u8>(), 0..40)),
                1..5,
            ),
        ) {
            let mut bytes = Vec::new();
            let mut expected = Vec::new();
            for (name, is_replicated, flags, number, data) in &items {
                let key = format!("{}{name}", if *is_replicated { "r" } else { "o" });
                let shown = if *is_replicated { tag.token(*number) } else { *number };
                for (out, cas) in [(&mut bytes, *number), (&mut expected, shown)] {
                    out.extend(format!("VALUE {key} {flags} {} {cas}\r\n", data.len()).bytes());
                    out.extend(data.iter().chain(b"\r\n"));
                }
            }
            bytes.extend(b"END\r\n");
            expected.extend(b"END\r\n");
            let (reply, values) = scan(Expected::Retrieval, &bytes);
            let tagged = tag.in_values((reply, &bytes), &values, |key| key[0] == b'r').expect("it has tokens");
            prop_assert_eq!(&tagged.bytes, &expected);
            let (reply, values) = scan(Expected::Retrieval, &expected);
            prop_assert_eq!((tagged.reply, tagged.values), (reply, values));
        }

        #[test]
        fn a_meta_reply_with_tokens_is_a_reply_like_any(
            tag in tag(),
            words in proptest::collection::vec("c[0-9]{1,19}|c|cx|c1x|k[a-z0-9]{1,9}|O[c0-9 ]{0,5}|t-1|f7|b|W", 0..6),
            data in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
            is_quiet: bool,
        ) {
            let render = |show: &dyn Fn(u64) -> u64| {
                let head = data.as_ref().map_or("HD".to_owned(), |data| format!("VA {}", data.len()));
                let mut text = head;
                for word in words.iter().flat_map(|word| word.split(' ')) {
                    let number = word.strip_prefix('c').and_then(|number| number.parse().ok());
                    text += &number.map_or(format!(" {word}"), |number| format!(" c{}", show(number)));
                }
                let mut bytes = (text + "\r\n").into_bytes();
                data.iter().for_each(|data| bytes.extend(data.iter().chain(b"\r\n")));
                bytes.extend_from_slice(if is_quiet { b"MN\r\n" } else { b"" });
                bytes
            };
            let kind = if is_quiet { Expected::MetaThenNoop } else { Expected::Meta };
            // Numbers are written without leading zeros.
            let (bytes, expected) = (render(&|number| number), render(&|number| tag.token(number)));
            let (reply, _) = scan(kind, &bytes);
            match tag.in_meta(reply, &bytes) {
                None => prop_assert_eq!(bytes, expected),
                Some(tagged) => {
                    prop_assert_eq!(&tagged.bytes, &expected);
                    prop_assert_eq!(tagged.reply, scan(kind, &expected).0);
                }
            }
        }
    }
}
