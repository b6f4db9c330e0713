//! Who a session is, and which of its requests may pass.
//!
//! ```text
//!   accepted ──▶ Open                        nobody must log in
//!            └─▶ Locked ── log_in ──▶ User   its requests are looked at, if it may not do everything
//!                  └─ certificate ─▶ Shown ── its first request ──▶ User
//! ```
//!
//! [`Gate`] owns that of one session. It is asked about each request of somebody who may not do everything ([`Gate::judge`]), before
//! anything is done for it, and hands it back or answers it in its place. Where keys belong is asked of the routes in force: a prefix that
//! leads to another pool from now on is judged so at once.
//!
//! A read may name a million keys. Of one that is carried out in slices (`requests/bulk_reads.rs`) the first are judged before it is taken,
//! and the others slice by slice, before they are asked for ([`Gate::refusal_of_slice`]).

use crate::{
    clients::habits::{Habits, SLICE_KEYS_MAX},
    clients::users::{User, Users},
    routes::Routes,
    wire::key::WireKey,
    wire::stats::StatsTopic,
};
use std::sync::Arc;
use weir_protocol::{Parsed, Refusal, Request, Retrieval, RetrievalVerb, Storage, StorageVerb, login_words};
use weir_timing::Instant;

/// Whether a client must log in, where there are users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    /// It must.
    Wanted,
    /// It came in where nobody has to: it may do everything.
    NotWanted,
}

/// Who a session is.
#[derive(Clone, Debug, Default)]
pub(crate) enum Gate {
    /// Anybody, who may do everything.
    #[default]
    Open,
    /// Nobody yet, since then.
    Locked(Instant),
    /// This one, by its certificate, and it has asked for nothing yet. These are all users.
    Shown(Arc<User>, Arc<Users>),
    /// This one.
    User(Arc<User>),
}

impl Gate {
    /// Since when a login is waited for.
    pub(crate) const fn locked_since(&self) -> Option<Instant> {
        match self {
            Self::Locked(since) => Some(*since),
            _ => None,
        }
    }

    /// Who has logged in.
    pub(crate) const fn user(&self) -> Option<&Arc<User>> {
        match self {
            Self::User(user) | Self::Shown(user, _) => Some(user),
            _ => None,
        }
    }

    /// Who is to be from the first request on.
    pub(crate) fn shown(&self) -> Option<Arc<User>> {
        match self {
            Self::Shown(user, _) => Some(Arc::clone(user)),
            _ => None,
        }
    }

    /// What is found at the front of a session's bytes, or the refusal in its place. `habits` say which reads are carried out in slices.
    pub(crate) fn judge<'a>(&self, parsed: Parsed<'a>, routes: &Routes, habits: &Habits) -> Parsed<'a> {
        let Some(user) = self.user() else { return parsed };
        if let Parsed::Request { request: Request::Storage(storage), len } = &parsed
            && let Some((name, password)) = self.login(storage)
        {
            // It says its password, too, which is not to be stored for others to read.
            return Parsed::Login { name, password, len: *len };
        }
        match parsed {
            Parsed::Request { request, len } => match refusal(user, &without_slices(request, habits), routes)
            {
                Some(refusal) => Parsed::Refused { refusal, silent: request.noreply(), len },
                None => parsed,
            },
            // The old value would be deleted.
            Parsed::TooLarge { key, base64, silent, erases: true, len, swallow, .. } => {
                match refusal_of_write(user, WireKey { bytes: key, base64 }, routes) {
                    Some(refusal) => {
                        Parsed::TooLarge { refusal, key, base64, silent, erases: false, len, swallow }
                    }
                    None => parsed,
                }
            }
            _ => parsed,
        }
    }
}

impl Gate {
    /// Why a user may not have the keys of this slice of a read, if he may not.
    pub(crate) fn refusal_of_slice(&self, slice: Retrieval<'_>, routes: &Routes) -> Option<Refusal> {
        self.user().and_then(|user| refusal(user, &Request::Retrieval(slice), routes))
    }

    /// The name and the password that a client says which need not, if they are somebody's.
    fn login<'a>(&self, storage: &Storage<'a>) -> Option<(&'a [u8], &'a [u8])> {
        let Self::Shown(_, users) = self else { return None };
        let words = login_words(storage.value).filter(|_| storage.verb == StorageVerb::Set);
        words.filter(|(name, password)| users.with_password(name, password).is_some())
    }
}

/// A read that is carried out in slices, as if it had no more keys than its first slice may have. Any other request.
fn without_slices<'a>(request: Request<'a>, habits: &Habits) -> Request<'a> {
    match request {
        Request::Retrieval(read)
            if matches!(read.verb, RetrievalVerb::Get | RetrievalVerb::Gets)
                && habits.slices(read.key_count()) =>
        {
            Request::Retrieval(read.split(SLICE_KEYS_MAX).0)
        }
        request => request,
    }
}

/// Why this user may not do this, if it may not.
fn refusal(user: &User, request: &Request<'_>, routes: &Routes) -> Option<Refusal> {
    if user.is_read_only() && request.may_change_items() {
        return Some(Refusal::ReadOnly);
    }
    let may_use = user.may_use_all() || all_keys(request, |key| may_use(user, key, routes));
    (!may_use).then_some(Refusal::OtherPool)
}

fn refusal_of_write(user: &User, key: WireKey<'_>, routes: &Routes) -> Option<Refusal> {
    match user.is_read_only() {
        true => Some(Refusal::ReadOnly),
        false => (!may_use(user, key, routes)).then_some(Refusal::OtherPool),
    }
}

/// Whether the key belongs to a pool of this user's.
fn may_use(user: &User, key: WireKey<'_>, routes: &Routes) -> bool {
    let decoded = key.decoded();
    user.may_use(routes.pool_name(key.placement_name(decoded.as_ref())))
}

/// Whether this holds for all keys of a request. It does not for one that concerns keys of all pools.
fn all_keys<'a>(request: &Request<'a>, mut is_so: impl FnMut(WireKey<'a>) -> bool) -> bool {
    let plain = |bytes| WireKey { bytes, base64: false };
    match request {
        Request::Retrieval(retrieval) => retrieval.keys().all(|key| is_so(plain(key))),
        Request::Meta(meta) => is_so(WireKey::of(meta)),
        Request::Storage(storage) => is_so(plain(storage.key)),
        Request::Deletion(deletion) => is_so(plain(deletion.key)),
        Request::Arithmetic(arithmetic) => is_so(plain(arithmetic.key)),
        Request::Touch(touch) => is_so(plain(touch.key)),
        Request::FlushAll { .. } | Request::ServerCommand { .. } => false,
        // It names keys, or hashes of them.
        Request::Stats { arguments } => StatsTopic::parse(arguments) != Some(StatsTopic::Hot),
        Request::MetaNoop | Request::Version | Request::Verbosity { .. } | Request::Quit => true,
    }
}
