//! What servers are spoken to in: TLS, with their names verified.
//!
//! [`Outbound`] owns what sessions begin with towards servers of which the same [`Terms`] are said. It is asked for a session with one
//! server, whose name it knows from where the server is, unless one name stands for all of them.

use crate::connections::tls::{
    files::{Named, TlsError},
    session::Session,
};
use rustls::{ClientConfig, ClientConnection, client::Resumption, crypto::ring, pki_types::ServerName};
use std::{fmt, path::PathBuf, sync::Arc};
use weir_routing::Endpoint;

/// What settings say of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Terms {
    /// Who signs what servers show.
    authorities: PathBuf,
    /// Chain and key of what the proxy shows, if it shows anything; without a key it stands beside the chain.
    shown: Option<(PathBuf, Option<PathBuf>)>,
    /// The name that all servers have to prove, in place of where they are.
    name: Option<ServerName<'static>>,
}

pub(crate) struct Outbound {
    said: Terms,
    config: Arc<ClientConfig>,
}

impl Terms {
    pub(crate) fn new(
        authorities: PathBuf,
        shown: Option<(PathBuf, Option<PathBuf>)>,
        name: Option<ServerName<'static>>,
    ) -> Self {
        Self { authorities, shown, name }
    }
}

impl Outbound {
    /// Reads the files of these terms.
    pub(crate) fn read(said: Terms) -> Result<Self, TlsError> {
        let authorities = Named::new("server-ca", &said.authorities);
        let failed = |error: rustls::Error| authorities.refused(format!("it cannot be used: {error}"));
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_root_certificates(authorities.authorities()?);
        let mut config = match &said.shown {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = Named::new("server-cert", chain);
                let key = key.as_deref().map_or(chain, |key| Named::new("server-key", key));
                let built = builder.with_client_auth_cert(chain.certificates()?, key.key()?);
                built.map_err(|error| key.refused_as_key_of(chain, &error))?
            }
        };
        // A memcached that asks for certificates breaks a handshake off that resumes a session (OpenSSL: session id context uninitialized).
        // Connections to servers are few, and last.
        config.resumption = Resumption::disabled();
        Ok(Self { said, config: Arc::new(config) })
    }

    /// Whether settings say the same of both. Files may have changed.
    pub(super) fn is_said_as(&self, other: &Self) -> bool {
        self.said == other.said
    }

    /// A name that a setting gives, if it is one.
    pub(crate) fn name(text: &str) -> Option<ServerName<'static>> {
        ServerName::try_from(text.to_owned()).ok()
    }

    /// The name that a server has to prove: `None` if it has none.
    pub(crate) fn name_of(&self, endpoint: &Endpoint) -> Option<ServerName<'static>> {
        match (&self.said.name, endpoint) {
            (Some(name), _) => Some(name.clone()),
            (None, Endpoint::Tcp { host, .. }) => Self::name(host.trim_matches(['[', ']'])),
            (None, Endpoint::Unix { .. }) => None,
        }
    }

    /// A session with a server that is being connected to; `None` if it has no name that it could prove.
    pub(crate) fn begin(&self, endpoint: &Endpoint) -> Option<Box<Session>> {
        let connection = ClientConnection::new(Arc::clone(&self.config), self.name_of(endpoint)?).ok()?;
        Some(Box::new(Session::of_server(connection)))
    }
}

impl fmt::Debug for Outbound {
    /// Not what was read: it may have a key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Outbound").field("said", &self.said).finish_non_exhaustive()
    }
}
