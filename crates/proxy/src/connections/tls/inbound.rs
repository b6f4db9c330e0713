//! What a listener speaks to its clients: TLS with this certificate.
//!
//! ```text
//!   files ── read ──▶ Inbound ◀── renew ── a reload: sessions that begin from then on have the new certificate
//!                        │ begin: Session, if there is a place for a handshake
//! ```
//!
//! [`Inbound`] owns what sessions begin with, and the places of handshakes (`handshake_places.rs`). Tickets of sessions are encrypted with
//! keys of its own, so a client can resume a session at any loop. New terms have new keys: a ticket stands for a certificate that the client
//! showed, and that may be the one that is trusted no more.

use crate::connections::tls::{
    files::{Named, TlsError},
    handshake_places::HandshakePlaces,
    session::Session,
};
use rustls::{ServerConfig, ServerConnection, crypto::ring, server::WebPkiClientVerifier};
use std::{
    fmt,
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
};

pub(crate) struct Inbound {
    terms: RwLock<Arc<ServerConfig>>,
    places: Arc<HandshakePlaces>,
}

impl Inbound {
    /// With the chain and the key of these files; `authorities`: those who sign what clients have to show, if they have to.
    pub(crate) fn read(
        chain: Named<'_>,
        key: Named<'_>,
        authorities: Option<Named<'_>>,
        handshakes_max: usize,
    ) -> Result<Self, TlsError> {
        let terms = RwLock::new(Arc::new(server_terms(chain, key, authorities)?));
        Ok(Self { terms, places: HandshakePlaces::new(handshakes_max) })
    }

    /// A session for a client that has connected from this address, if it has one; `None` if too many handshakes are under way.
    pub(crate) fn begin(&self, address: Option<IpAddr>) -> Option<Box<Session>> {
        let place = self.places.enter(address)?;
        let terms = Arc::clone(&self.terms.read().unwrap_or_else(PoisonError::into_inner));
        let connection = ServerConnection::new(terms).ok()?;
        Some(Box::new(Session::of_client(connection, place)))
    }

    /// From now on sessions begin with what was read anew.
    pub(crate) fn renew(&self, read: &Self) {
        let terms = Arc::clone(&read.terms.read().unwrap_or_else(PoisonError::into_inner));
        *self.terms.write().unwrap_or_else(PoisonError::into_inner) = terms;
    }
}

impl fmt::Debug for Inbound {
    /// Not the terms: they have a key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Inbound").field("places", &self.places).finish_non_exhaustive()
    }
}

/// The terms of a server: this chain, with this key. `authorities`: those who sign what its clients have to show, if they have to.
pub(crate) fn server_terms(
    chain: Named<'_>,
    key: Named<'_>,
    authorities: Option<Named<'_>>,
) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let failed = |error: rustls::Error| chain.refused(format!("it cannot be used: {error}"));
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(failed)?;
    let builder = match authorities {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let store = Arc::new(file.authorities()?);
            let verifier = WebPkiClientVerifier::builder_with_provider(store, provider).build();
            let verifier = verifier.map_err(|error| file.refused(format!("it cannot be used: {error}")))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let (certificates, private) = (chain.certificates()?, key.key()?);
    let built = builder.with_single_cert(certificates, private);
    let mut terms = built.map_err(|error| key.refused_as_key_of(chain, &error))?;
    terms.ticketer = ring::Ticketer::new().map_err(failed)?;
    Ok(terms)
}
