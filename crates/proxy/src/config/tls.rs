//! Which settings of TLS go together, and what their files make.

use crate::{
    config::{error::ConfigError, settings::Settings},
    connections::tls::{files::Named, inbound::Inbound},
};

/// What is spoken to clients: reads the files.
pub(super) fn inbound(settings: &Settings) -> Result<Option<Inbound>, ConfigError> {
    let Some(chain) = settings.tls_cert.as_deref() else {
        let strays = [("tls-key", &settings.tls_key), ("tls-client-ca", &settings.tls_client_ca)];
        let stray = strays.into_iter().find(|(_, file)| file.is_some());
        return stray.map_or(Ok(None), |(setting, _)| Err(ConfigError::Needs { setting, needs: "tls-cert" }));
    };
    let chain = Named::new("tls-cert", chain);
    // As HAProxy has it: both in one file.
    let key = settings.tls_key.as_deref().map_or(chain, |path| Named::new("tls-key", path));
    let authorities = settings.tls_client_ca.as_deref().map(|path| Named::new("tls-client-ca", path));
    Ok(Some(Inbound::read(chain, key, authorities, settings.tls_handshakes)?))
}
