//! Which settings of TLS go together, and what their files make.

use crate::{
    config::{error::ConfigError, settings::Settings},
    connections::tls::{Inbound, Named, Outbound},
};
use weir_routing::Table;

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

/// What is spoken to servers: reads the files.
pub(super) fn outbound(settings: &Settings, table: &Table) -> Result<Option<Outbound>, ConfigError> {
    if !settings.server_tls {
        let strays = [
            ("server-ca", settings.server_ca.is_some()),
            ("server-cert", settings.server_cert.is_some()),
            ("server-key", settings.server_key.is_some()),
            ("server-name", settings.server_name.is_some()),
        ];
        let stray = strays.into_iter().find(|(_, is_said)| *is_said);
        return stray
            .map_or(Ok(None), |(setting, _)| Err(ConfigError::Needs { setting, needs: "server-tls" }));
    }
    let needs = |setting, needs| ConfigError::Needs { setting, needs };
    let authorities = settings.server_ca.as_deref().ok_or(needs("server-tls", "server-ca"))?;
    let shown = match (settings.server_cert.as_deref(), settings.server_key.as_deref()) {
        (None, None) => None,
        (None, Some(_)) => return Err(needs("server-key", "server-cert")),
        (Some(chain), key) => {
            let chain = Named::new("server-cert", chain);
            Some((chain, key.map_or(chain, |path| Named::new("server-key", path))))
        }
    };
    let name = match settings.server_name.as_deref() {
        None => None,
        Some(text) => {
            let name = Outbound::name(text);
            Some(name.ok_or_else(|| ConfigError::ServerName { name: text.to_owned() })?)
        }
    };
    let outbound = Outbound::read(Named::new("server-ca", authorities), shown, name)?;
    match table.servers().iter().find(|server| outbound.name_of(&server.endpoint).is_none()) {
        Some(server) => Err(ConfigError::ServerUnnamed { server: server.to_string() }),
        None => Ok(Some(outbound)),
    }
}
