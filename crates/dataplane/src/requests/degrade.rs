//! What becomes of a request of which a part failed: the error, or misses.
//!
//! With [`OnFailure::Degrade`] a retrieval is answered whatever servers do: the keys of a part that failed are misses. What a
//! miss is answered with lies in the service from the start, and stays the answer where no server gives a better one; in a
//! split multi-get the values of the other parts are merged as ever, and those of the failed part are simply not there.
//! With [`OnStale::Miss`] the same holds where no server of a key may be read because all lack writes, and for that reason only.

use crate::{Dataplane, Fault, OnFailure, OnStale, requests::service::Answer, servers::backend::RequestKey};
use weir_protocol::{Meta, MetaVerb, Status};

/// Which failures of a request are misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Degrades {
    Never,
    /// That no server of a key may be read because all lack writes, or may.
    WhereStale,
    Always,
}

impl Degrades {
    pub(crate) fn covers(self, fault: Fault) -> bool {
        self == Self::Always || self == Self::WhereStale && fault == Fault::Stale
    }
}

impl Dataplane {
    /// If failures are misses, this is what the request is answered when no server answers it.
    pub(crate) fn answer_failures_with(&mut self, key: RequestKey, miss: impl FnOnce() -> Answer) {
        let degrades = match (self.base.fleet.config.on_failure, self.base.fleet.config.on_stale) {
            (OnFailure::Degrade, _) => Degrades::Always,
            (OnFailure::Strict, OnStale::Miss) => Degrades::WhereStale,
            (OnFailure::Strict, OnStale::Error) => return,
        };
        let service = &mut self.requests.services[key];
        service.degrades = degrades;
        service.answer = miss();
    }

    /// A server that the request needs gave no answer.
    pub(crate) fn fail(&mut self, key: RequestKey, fault: Fault, server: usize) {
        self.fail_part((key, 0), fault, server);
    }

    /// The server of this part of the request gave no answer.
    pub(crate) fn fail_part(&mut self, (key, part): (RequestKey, u32), fault: Fault, server: usize) {
        if self.requests.services[key].degrades.covers(fault) {
            self.degrade_part(key, part);
        } else {
            // A server that lets nobody in is down for that reason, and says so.
            let why = self.base.fleet.servers[server].refusal.filter(|_| fault == Fault::Down);
            self.requests.services[key]
                .fail(why.unwrap_or(fault), self.base.fleet.servers.slots.name(server));
        }
    }

    /// A server answered a part with an error line. What it says to a mistake of the client stays.
    pub(crate) fn fail_with_line(&mut self, (key, part): (RequestKey, u32), line: &[u8], status: Status) {
        if self.requests.services[key].degrades == Degrades::Always && status == Status::ServerError {
            self.degrade_part(key, part);
        } else {
            self.requests.services[key].fail_with_line(line, status);
        }
    }

    /// The keys of this part are misses.
    pub(crate) fn degrade_part(&mut self, key: RequestKey, part: u32) {
        let service = &mut self.requests.services[key];
        service.degraded = true;
        let keys = service.gather.as_ref().map_or(service.keys, |gather| gather.keys_of(part));
        self.base.meter.counters().keys_degraded += u64::from(keys);
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
    meta_line(b"EN", meta)
}

/// A line of memcached's that repeats what it repeats of a request that was not carried out: the key and the opaque, in the order in
/// which they were asked for, and for `ms` that there is no token.
pub(crate) fn meta_line(word: &[u8], meta: Meta<'_>) -> Answer {
    let mut line = word.to_vec();
    for flag in meta.flags() {
        match flag[0] {
            b'O' => line.extend([b" ", flag].concat()),
            b'k' => {
                line.extend([b" k", meta.key].concat());
                line.extend_from_slice(if meta.is_base64() { b" b" } else { b"" });
            }
            b'c' if meta.verb == MetaVerb::Set => line.extend_from_slice(b" c0"),
            _ => {}
        }
    }
    line.extend_from_slice(b"\r\n");
    Answer::Owned(line)
}

#[cfg(test)]
mod tests {
    use super::*;

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
