//! Which settings of TLS go together, and what their files make.

use crate::{
    config::{
        error::ConfigError,
        settings::{SaidOfServers, Settings, Table as _},
    },
    connections::tls::{Inbound, Named, Outbound, Outbounds, Spoken, Terms},
};
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};
use weir_routing::{Server, Table};

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

/// What each server is spoken to in, where `said` holds unless something else is said of a server: reads the files.
pub(super) fn outbounds(
    said: &Settings,
    table: &Table,
    of_servers: &SaidOfServers,
) -> Result<Outbounds, ConfigError> {
    let mut reading = Reading::default();
    for pool in table.pools() {
        // By the names that they were given; those of the table may be others.
        for (given, server) in pool.router().servers().iter().zip(table.servers_of(pool)) {
            let own = of_servers.get(&(pool.name().to_owned(), given.name.clone())).map(Settings::of);
            let spoken = reading.spoken(own.as_ref().unwrap_or(said), server)?;
            if !reading.outbounds.say(server, &spoken) {
                return Err(ConfigError::ServerTwoWays { server: server.to_string() });
            }
        }
    }
    let strays = [
        ("server-ca", said.server_ca.is_some()),
        ("server-cert", said.server_cert.is_some()),
        ("server-key", said.server_key.is_some()),
        ("server-name", said.server_name.is_some()),
    ];
    let stray = strays.into_iter().find(|(_, is_said)| *is_said && !said.server_tls);
    match stray {
        Some((setting, _)) if reading.read.is_empty() => {
            Err(ConfigError::Needs { setting, needs: "server-tls" })
        }
        _ => Ok(reading.outbounds),
    }
}

/// Files that were read, each once.
#[derive(Default)]
struct Reading {
    outbounds: Outbounds,
    read: HashMap<Terms, Arc<Outbound>>,
}

impl Reading {
    fn spoken(&mut self, said: &Settings, server: &Server) -> Result<Spoken, ConfigError> {
        if !said.server_tls {
            return Ok(Spoken::Plain);
        }
        let terms = terms(said)?;
        let outbound = match self.read.entry(terms) {
            Entry::Occupied(read) => Arc::clone(read.get()),
            Entry::Vacant(place) => {
                let read = Outbound::read(place.key().clone())?;
                Arc::clone(place.insert(Arc::new(read)))
            }
        };
        match outbound.name_of(&server.endpoint) {
            None => Err(ConfigError::ServerUnnamed { server: server.to_string() }),
            Some(_) => Ok(Spoken::Tls(outbound)),
        }
    }
}

fn terms(said: &Settings) -> Result<Terms, ConfigError> {
    let needs = |setting, needs| ConfigError::Needs { setting, needs };
    let authorities = said.server_ca.clone().ok_or(needs("server-tls", "server-ca"))?;
    let shown = match (said.server_cert.clone(), said.server_key.clone()) {
        (None, None) => None,
        (None, Some(_)) => return Err(needs("server-key", "server-cert")),
        (Some(chain), key) => Some((chain, key)),
    };
    let name = match said.server_name.as_deref() {
        None => None,
        Some(text) => {
            let name = Outbound::name(text);
            Some(name.ok_or_else(|| ConfigError::ServerName { name: text.to_owned() })?)
        }
    };
    Ok(Terms::new(authorities, shown, name))
}
