//! What the other replicas learn of a write that the primary decides.
//!
//! Replicas could decide a conditional write differently: by other cas tokens, by copies that are missing, by flags that one
//! version knows and another does not. So the primary alone is asked. If it refuses, the request ends there, and nobody else has
//! heard of it. If it did what was asked, or nobody knows whether it did, the others forget the key: a missing copy is safe where
//! an old one is not.

use crate::{
    Dataplane,
    backend::{NewPart, RequestKey},
    dispatch::{REPLICAS_MAX, write_message},
    key::WireKey,
    table::Routes,
};
use std::sync::Arc;
use weir_protocol::{Deletion, Expected, Meta, MetaVerb, Request, Status};
use weir_timing::Instant;

/// The replicas of a key after its primary, while the primary decides.
#[derive(Debug)]
pub(crate) struct Followers {
    key: Box<[u8]>,
    base64: bool,
    /// As they were when the primary was asked: whoever is a replica by now, these had the old copies.
    routes: Arc<Routes>,
}

impl Followers {
    pub(crate) fn of(key: WireKey<'_>, routes: &Arc<Routes>) -> Self {
        Self { key: key.bytes.into(), base64: key.base64, routes: Arc::clone(routes) }
    }

    fn key(&self) -> WireKey<'_> {
        WireKey { bytes: &self.key, base64: self.base64 }
    }
}

impl Dataplane {
    /// The primary did, or may have done, what `request` asked: it is answered when the others have forgotten the key.
    pub(crate) fn invalidate(&mut self, request: RequestKey, followers: &Followers, now: Instant) {
        let service = &mut self.services[request];
        service.following = true;
        let created = service.stamps.created;
        self.for_each_follower(followers, |dataplane, server, message, expected| {
            match dataplane.backends[server].admit(&dataplane.config) {
                Ok(()) => {
                    dataplane.send_invalidation(server, Some(request), message, expected, created, now);
                    dataplane.services[request].outstanding += 1;
                }
                Err(fault) => dataplane.note_refusal(request, fault, server),
            }
        });
    }

    /// As [`Dataplane::invalidate`], for a request that is answered without waiting for it.
    pub(crate) fn invalidate_unattended(&mut self, followers: &Followers, created: Instant, now: Instant) {
        self.for_each_follower(followers, |dataplane, server, message, expected| {
            if dataplane.backends[server].admit(&dataplane.config).is_ok() {
                dataplane.send_invalidation(server, None, message, expected, created, now);
            }
        });
    }

    fn for_each_follower(
        &mut self,
        followers: &Followers,
        mut tell: impl FnMut(&mut Self, usize, Request<'_>, Expected),
    ) {
        let key = followers.key();
        let decoded = key.decoded();
        let mut replicas = [0; REPLICAS_MAX];
        let count = followers.routes.replicas_of(key.placement_name(decoded.as_ref()), &mut replicas);
        let (message, expected) = invalidation(key);
        for &server in &replicas[1..count] {
            tell(self, usize::from(server), message, expected);
        }
    }

    fn send_invalidation(
        &mut self,
        server: usize,
        request: Option<RequestKey>,
        message: Request<'_>,
        expected: Expected,
        created: Instant,
        now: Instant,
    ) {
        let part = NewPart { request, expected, decides: false, index: 0, created };
        let backend = &mut self.backends[server];
        backend.begin_message(part, &self.config, now);
        write_message(message, expected, backend);
        backend.finish_message();
        self.counters.replicas_invalidated += 1;
    }
}

/// What makes a server forget a key, and what it may reply.
pub(crate) fn invalidation(key: WireKey<'_>) -> (Request<'_>, Expected) {
    if key.base64 {
        let meta = Meta { verb: MetaVerb::Delete, key: key.bytes, flags: b"b", block: &[] };
        (Request::Meta(meta), Expected::Meta)
    } else {
        (Request::Deletion(Deletion { key: key.bytes, noreply: false }), Expected::Deletion)
    }
}

/// Whether a server that says this to a write may now hold something else than before. A server without memory for a value forgets
/// the old one, and a quiet meta command that changed something may say as much as one that did not: nothing.
pub(crate) const fn may_have_changed(status: Status) -> bool {
    !matches!(
        status,
        Status::NotStored
            | Status::Exists
            | Status::NotFound
            | Status::MetaMiss
            | Status::MetaNotDone
            | Status::Error
            | Status::ClientError
    )
}
