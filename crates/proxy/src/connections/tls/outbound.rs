//! What servers are spoken to in: TLS, with their names verified.
//!
//! [`Outbound`] owns what sessions towards servers begin with. It is asked for a session with one server, whose name it knows from where the
//! server is, unless one name stands for all of them.

use crate::connections::tls::{
    files::{Named, TlsError},
    session::Session,
};
use rustls::{ClientConfig, ClientConnection, crypto::ring, pki_types::ServerName};
use std::{fmt, sync::Arc};
use weir_routing::Endpoint;

pub(crate) struct Outbound {
    terms: Arc<ClientConfig>,
    /// The name that all servers have to prove, in place of where they are.
    name: Option<ServerName<'static>>,
}

impl Outbound {
    /// `authorities`: those who sign what servers show; `shown`: chain and key of what the proxy shows, if it shows anything.
    pub(crate) fn read(
        authorities: Named<'_>,
        shown: Option<(Named<'_>, Named<'_>)>,
        name: Option<ServerName<'static>>,
    ) -> Result<Self, TlsError> {
        let failed = |error: rustls::Error| authorities.refused(format!("it cannot be used: {error}"));
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_root_certificates(authorities.authorities()?);
        let terms = match shown {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let built = builder.with_client_auth_cert(chain.certificates()?, key.key()?);
                built.map_err(|error| key.refused_as_key_of(chain, &error))?
            }
        };
        Ok(Self { terms: Arc::new(terms), name })
    }

    /// A name that a setting gives, if it is one.
    pub(crate) fn name(text: &str) -> Option<ServerName<'static>> {
        ServerName::try_from(text.to_owned()).ok()
    }

    /// The name that a server has to prove: `None` if it has none.
    pub(crate) fn name_of(&self, endpoint: &Endpoint) -> Option<ServerName<'static>> {
        match (&self.name, endpoint) {
            (Some(name), _) => Some(name.clone()),
            (None, Endpoint::Tcp { host, .. }) => Self::name(host.trim_matches(['[', ']'])),
            (None, Endpoint::Unix { .. }) => None,
        }
    }

    /// A session with a server that is being connected to; `None` if it has no name that it could prove.
    pub(crate) fn begin(&self, endpoint: &Endpoint) -> Option<Box<Session>> {
        let connection = ClientConnection::new(Arc::clone(&self.terms), self.name_of(endpoint)?).ok()?;
        Some(Box::new(Session::of_server(connection)))
    }
}

impl fmt::Debug for Outbound {
    /// Not the terms: they may have a key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Outbound").field("name", &self.name).finish_non_exhaustive()
    }
}
