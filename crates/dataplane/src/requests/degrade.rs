//! Which failures are answered as misses, and what such a miss looks like.
//!
//! With [`OnFailure::Degrade`] a retrieval is answered whatever servers do: the keys of a part that failed are misses. What a miss is
//! answered with lies in the service from the start, and stays the answer where no server gives a better one. In a split multi-get the
//! values of the other parts are merged as ever, and those of the failed part are simply not there. With [`OnStale::Miss`] the same holds
//! where no server of a key may be read because all lack writes, and for that reason only. A get that has missed, and was asked again behind
//! a write, has its miss whatever the operator wishes.

use crate::{
    Fault, OnFailure, OnStale, config::Config, requests::answer::Answer, wire::meta_line::meta_line,
};
use weir_protocol::Meta;

/// Which failures of a request are misses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Degrades {
    #[default]
    Never,
    /// That no server of a key may be read because all lack writes, or may.
    WhereStale,
    Always,
    /// All: it has missed before, and has waited for its key to be filled (`fill_once.rs`).
    AfterMiss,
}

impl Degrades {
    /// Those of a retrieval, by the operator's wish.
    pub(crate) fn of(config: &Config) -> Self {
        match (config.on_failure, config.on_stale) {
            (OnFailure::Degrade, _) => Self::Always,
            (OnFailure::Strict, OnStale::Miss) => Self::WhereStale,
            (OnFailure::Strict, OnStale::Error) => Self::Never,
        }
    }

    pub(crate) fn covers(self, fault: Fault) -> bool {
        self.covers_all() || self == Self::WhereStale && fault == Fault::Stale
    }

    pub(crate) fn covers_all(self) -> bool {
        matches!(self, Self::Always | Self::AfterMiss)
    }
}

/// What memcached answers to this `mg` if there is no such key: `EN` with the key and the opaque, in the order in which they were
/// asked for; nothing if it is quiet.
pub(crate) fn meta_miss(meta: Meta<'_>) -> Answer {
    if meta.is_quiet() {
        return Answer::None;
    }
    if !meta.flags().any(|flag| matches!(flag[0], b'k' | b'O')) {
        return Answer::Fixed(b"EN\r\n");
    }
    Answer::Owned(meta_line(b"EN", meta))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_protocol::MetaVerb;

    /// Checked against memcached 1.6.18.
    #[test]
    fn a_meta_miss_repeats_what_memcached_repeats() {
        let check = |flags: &[u8], expected: &str| {
            let meta = Meta { verb: MetaVerb::Get, key: b"a2V5", flags, block: b"" };
            assert_eq!(String::from_utf8_lossy(meta_miss(meta).as_slice()), expected);
        };
        check(b"", "EN\r\n");
        check(b"v t", "EN\r\n");
        check(b"v k O123", "EN ka2V5 O123\r\n");
        check(b"b O1 k v", "EN O1 ka2V5 b\r\n");
        check(b"v k q", "");
    }
}
