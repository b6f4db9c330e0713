//! How many clients may be connected to the process.
//!
//! [`ClientLimit`] owns one count for all event loops and engines. It is asked for a [`Place`] when a client has connected, and answers
//! with one or with none. Whoever has the client's connection keeps the place beside it; the place is free again when it is dropped,
//! which is after the connection was closed.

use crate::{
    connections::{
        listener_counts::Here,
        sockets::{self, Stream},
        tls::{
            line::Line,
            session::{Session, Tended},
        },
    },
    notices::notice::Notice,
};
use std::ops::AddAssign;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use weir_dataplane::{Counters, Login};

/// The places of clients.
#[derive(Debug)]
pub(crate) struct ClientLimit {
    most: AtomicUsize,
    taken: AtomicUsize,
}

/// One client's place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<ClientLimit>);

/// A client that was let in.
#[derive(Debug)]
pub(crate) struct Admitted {
    // Dropped in this order: the place is free when the descriptor is.
    stream: Stream,
    /// What it speaks, if that is TLS.
    tls: Option<Box<Session>>,
    /// Whether it must log in, if there are users.
    login: Login,
    /// Counts it at the place where it came in.
    _here: Option<Here>,
    _place: Place,
}

impl Admitted {
    pub(crate) fn new(stream: Stream, place: Place) -> Self {
        Self { stream, tls: None, login: Login::Wanted, _here: None, _place: place }
    }

    /// It came in at a place that counts it so, and where clients must log in, or need not.
    pub(crate) fn at(self, here: Here, login: Login) -> Self {
        Self { login, _here: Some(here), ..self }
    }

    /// It came in where this is spoken.
    pub(crate) fn with_tls(self, tls: Option<Box<Session>>) -> Self {
        Self { tls, ..self }
    }

    /// What its bytes come from and go to, where nobody speaks TLS (`transport.rs`).
    #[inline]
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The same where some do.
    #[inline]
    pub(crate) fn line(&mut self) -> Line<'_> {
        Line::new(&self.stream, self.tls.as_deref_mut())
    }

    /// Whether it speaks TLS, or is to.
    #[inline]
    pub(crate) fn speaks_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether it must log in, if there are users.
    pub(crate) fn login(&self) -> Login {
        self.login
    }

    /// Whether it is in its handshake.
    #[inline]
    pub(crate) fn is_shaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_shaking())
    }

    /// Sends what belongs to no reply, where TLS is spoken. Returns what came of that.
    pub(crate) fn tend(&mut self) -> Option<Tended> {
        self.tls.as_mut().map(|tls| tls.tend(&self.stream))
    }

    /// The names of the certificate that it has shown.
    pub(crate) fn certificate_names(&self) -> Vec<String> {
        self.tls.as_ref().map_or_else(Vec::new, |tls| tls.certificate_names())
    }

    /// Its socket, to be watched.
    pub(crate) fn stream_mut(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// It is served no more.
    pub(crate) fn close(mut self) {
        if let Some(tls) = &mut self.tls {
            tls.close(&self.stream);
        }
    }

    /// It cannot be served after all.
    pub(crate) fn refuse(self) {
        // Who is in a handshake could not read the words.
        if self.tls.is_none() {
            sockets::refuse(self.stream);
        }
    }
}

/// How many clients were refused, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refused {
    /// As many were connected as may be.
    too_many: u64,
    /// There was no descriptor for them.
    no_descriptor: u64,
    /// Too many handshakes were under way.
    no_handshake: u64,
}

impl Refused {
    pub(crate) fn note_too_many(&mut self) {
        self.too_many += 1;
    }

    pub(crate) fn note_no_descriptor(&mut self) {
        self.no_descriptor += 1;
    }

    pub(crate) fn note_no_handshake(&mut self) {
        self.no_handshake += 1;
    }

    pub(crate) fn is_none(self) -> bool {
        self == Self::default()
    }

    /// What an operator reads of them.
    pub(crate) fn notice(self, clients_max: usize) -> Notice {
        let Self { too_many, no_descriptor, no_handshake } = self;
        Notice::ClientsRefused { too_many, no_descriptor, no_handshake, clients_max }
    }

    /// Counts them among what a loop has counted.
    pub(crate) fn count(self, counters: &mut Counters) {
        counters.sessions_refused += self.too_many + self.no_descriptor;
        counters.sessions_refused_descriptors += self.no_descriptor;
        counters.tls_handshakes_refused += self.no_handshake;
    }
}

impl AddAssign for Refused {
    fn add_assign(&mut self, more: Self) {
        self.too_many += more.too_many;
        self.no_descriptor += more.no_descriptor;
        self.no_handshake += more.no_handshake;
    }
}

impl ClientLimit {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most: AtomicUsize::new(most), taken: AtomicUsize::new(0) })
    }

    /// A place, if one is free.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Place> {
        let most = self.most();
        let enter = |taken| (taken < most).then_some(taken + 1);
        let entered = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enter);
        entered.is_ok().then(|| Place(Arc::clone(self)))
    }

    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    /// From now on there may be this many. Whoever has a place keeps it.
    pub(crate) fn set_most(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_it_was_dropped() {
        let limit = ClientLimit::new(2);
        let (first, _second) = (limit.enter(), limit.enter());
        assert!(first.is_some() && limit.enter().is_none());
        drop(first);
        let third = limit.enter();
        assert!(third.is_some() && limit.enter().is_none());
        limit.set_most(1);
        drop(third);
        assert!(limit.enter().is_none(), "one is connected, and no more may be");
    }
}
