//! Settings with which a proxy could start and would serve nobody.
//!
//! [`Config::checked`] owns what is too little to serve with, and which addresses make the proxy ask itself. It is asked when all is
//! said, at the start and for each reload, and answers with the first setting that is wrong.

use crate::{Config, ConfigError, Listen};
use std::net::{IpAddr, SocketAddr};
use weir_routing::Endpoint;

/// The longest line of an answer without a value, and a few small values, fit.
const PEER_BUFFER_BYTES_MIN: usize = 4 << 10;

impl Config {
    /// The same, if it can serve.
    pub fn checked(self) -> Result<Self, ConfigError> {
        let least = [
            ("--max-connections", self.sessions_max, 1, "no client could connect"),
            ("--max-value", self.value_bytes_max.unwrap_or(1), 1, "clients could store nothing"),
            (
                "--client-buffer",
                self.client_buffer_bytes_max,
                PEER_BUFFER_BYTES_MIN,
                "no reply would fit that is longer",
            ),
            (
                "--server-buffer",
                self.server_buffer_bytes_max,
                PEER_BUFFER_BYTES_MIN,
                "no reply would fit that is longer",
            ),
        ];
        if let Some((setting, given, least, why)) =
            least.into_iter().find(|(_, given, least, _)| given < least)
        {
            return Err(ConfigError::TooLittle { setting, given, least, why });
        }
        if let Listen::Tcp(listen) = self.listen {
            let is_own = |endpoint: &Endpoint| is_at(endpoint, listen);
            if let Some(own) = self.table.servers().iter().find(|server| is_own(&server.endpoint)) {
                return Err(ConfigError::OwnServer { server: own.to_string(), listen });
            }
        }
        Ok(self)
    }
}

/// Whether whoever connects there comes to this port of ours. Names are not looked up for that.
fn is_at(endpoint: &Endpoint, listen: SocketAddr) -> bool {
    let Endpoint::Tcp { host, port } = endpoint else { return false };
    let Ok(address) = host.parse::<IpAddr>() else { return false };
    *port == listen.port()
        && (address == listen.ip() || (listen.ip().is_unspecified() && address.is_loopback()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_routing::{Placement, Router, Server};

    fn config(listen: &str) -> Config {
        let servers = vec![Server::new("127.0.0.1", 21_211)];
        let router = Router::new(servers, Placement::Modulo, 1).expect("one server is a pool");
        Config::new(listen, router.into(), 1).expect("valid")
    }

    fn check(change: impl FnOnce(&mut Config), refusal: &str) {
        let mut config = config("127.0.0.1:21212");
        change(&mut config);
        let told = config.checked().map_or_else(|error| error.to_string(), |_| String::new());
        assert!(if refusal.is_empty() { told.is_empty() } else { told.contains(refusal) }, "{told}");
    }

    #[test]
    fn a_proxy_that_would_serve_nobody_is_refused() {
        check(|_| {}, "");
        check(
            |it| it.sessions_max = 0,
            "--max-connections 0 is too little: no client could connect; give at least 1",
        );
        check(|it| it.sessions_max = 1, "");
        check(|it| it.value_bytes_max = Some(0), "--max-value 0 is too little");
        check(|it| it.client_buffer_bytes_max = 4095, "--client-buffer 4095 is too little");
        check(|it| it.client_buffer_bytes_max = 4096, "");
        check(|it| it.server_buffer_bytes_max = 0, "give at least 4096");
    }

    #[test]
    fn a_proxy_that_would_be_its_own_server_is_refused() {
        for (listen, is_own) in [
            ("127.0.0.1:21211", true),
            ("0.0.0.0:21211", true),
            ("127.0.0.2:21211", false),
            ("0.0.0.0:21212", false),
        ] {
            let refused = config(listen).checked().map_or_else(|error| error.to_string(), |_| String::new());
            assert_eq!(refused.contains("would ask itself"), is_own, "{listen} {refused}");
        }
    }
}
