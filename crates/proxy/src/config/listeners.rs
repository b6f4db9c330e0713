//! The places where clients connect, and what each asks of them.
//!
//! ```text
//!   [[listen]] of the file ──┐
//!                            ├──▶ Place, Place, …      the acceptor has a listener for each
//!   --listen, listen = … ────┘     at, TLS or not, login or not, and which pool
//! ```
//!
//! Without a row there is one place, that of the setting `listen`: it speaks TLS if the proxy has a certificate, and wants a login if it has
//! users.

use crate::config::{error::ConfigError, settings::Settings};
use std::{
    collections::HashSet,
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
};
use weir_routing::{Endpoint, Server};

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// By TCP.
    Tcp(SocketAddr),
    /// By a socket in the file system.
    Unix {
        /// Its path.
        path: PathBuf,
        /// Its permission bits: who may write to it may connect.
        mode: u32,
    },
}

impl fmt::Display for Listen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(formatter, "{address}"),
            Self::Unix { path, .. } => write!(formatter, "unix:{}", path.display()),
        }
    }
}

/// What the file says of one place, `[[listen]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenRow {
    /// HOST:PORT, or unix:/PATH for a socket in the file system.
    pub address: String,
    /// Permission bits of such a socket; `None`: those of the setting `listen_mode`.
    pub mode: Option<u32>,
    /// Whether TLS is spoken there; `None`: it is if the proxy has a certificate.
    pub tls: Option<bool>,
    /// Whether clients must log in there; `None`: they must if the proxy has users.
    pub login: Option<bool>,
    /// The pool of all keys of its clients; `None`: the routes say where each goes.
    pub pool: Option<String>,
}

/// A place where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenPlace {
    /// Where it is.
    pub at: Listen,
    /// Whether TLS is spoken there.
    pub speaks_tls: bool,
    /// Whether clients must log in there.
    pub wants_login: bool,
    /// The pool of all keys of its clients; `None`: the routes say where each goes.
    pub pool: Option<String>,
}

/// More places than this are a mistake: each is a descriptor, and a line of every page of metrics.
pub const LISTENERS_MAX: usize = 64;

/// All places, at least one. `has_tls`: there is a certificate. `has_users`: somebody can log in.
pub(super) fn places(
    rows: &[ListenRow],
    settings: &Settings,
    has_tls: bool,
    has_users: bool,
) -> Result<Vec<ListenPlace>, ConfigError> {
    let of_setting = [ListenRow { address: settings.listen.clone(), ..ListenRow::default() }];
    let rows = if rows.is_empty() { &of_setting } else { rows };
    if rows.len() > LISTENERS_MAX {
        return Err(ConfigError::TooManyListeners { count: rows.len(), most: LISTENERS_MAX });
    }
    let mut known = HashSet::new();
    let mut places = Vec::new();
    for row in rows {
        let address = || row.address.clone();
        let at = listen(&row.address, row.mode.unwrap_or(settings.listen_mode))?;
        // With port 0 the kernel chooses another one each time.
        let is_chosen = matches!(&at, Listen::Tcp(address) if address.port() == 0);
        if !is_chosen && !known.insert(at.to_string()) {
            return Err(ConfigError::ListenTwice { address: address() });
        }
        if row.tls == Some(true) && !has_tls {
            return Err(ConfigError::ListenTls { address: address() });
        }
        if row.login == Some(true) && !has_users {
            return Err(ConfigError::ListenLogin { address: address() });
        }
        let (speaks_tls, wants_login) = (row.tls.unwrap_or(has_tls), row.login.unwrap_or(has_users));
        places.push(ListenPlace { at, speaks_tls, wants_login, pool: row.pool.clone() });
    }
    // A certificate, or users, that no place asks for: whoever wrote them believes that clients are kept out.
    if has_tls && !places.iter().any(|place| place.speaks_tls) {
        return Err(ConfigError::NowhereAsked { setting: "tls-cert", key: "tls" });
    }
    if has_users && !places.iter().any(|place| place.wants_login) {
        return Err(ConfigError::NowhereAsked { setting: "auth-file", key: "login" });
    }
    Ok(places)
}

fn listen(text: &str, mode: u32) -> Result<Listen, ConfigError> {
    match text.parse::<Server>().map(|server| server.endpoint) {
        Ok(Endpoint::Unix { path }) => Ok(Listen::Unix { path: Path::new(&path).to_owned(), mode }),
        _ => resolve("listen", text).map(Listen::Tcp),
    }
}

/// The first address of a name.
pub(super) fn resolve(setting: &'static str, address: &str) -> Result<SocketAddr, ConfigError> {
    let failed = |source| ConfigError::Resolve { setting, address: address.to_owned(), source };
    let found = std::net::ToSocketAddrs::to_socket_addrs(address).map_err(failed)?.next();
    found.ok_or_else(|| failed(std::io::Error::other("the name has no address")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(address: &str) -> ListenRow {
        ListenRow { address: address.to_owned(), ..ListenRow::default() }
    }

    fn said(rows: &[ListenRow], has_tls: bool, has_users: bool) -> Result<Vec<String>, String> {
        let places =
            places(rows, &Settings::default(), has_tls, has_users).map_err(|error| error.to_string())?;
        let text = |place: &ListenPlace| {
            let (tls, login) = (place.speaks_tls, place.wants_login);
            format!("{}{}{}", place.at, if tls { " tls" } else { "" }, if login { " login" } else { "" })
        };
        Ok(places.iter().map(text).collect())
    }

    #[test]
    fn without_a_row_there_is_the_place_of_the_setting() {
        assert_eq!(said(&[], false, false), Ok(vec!["127.0.0.1:21211".to_owned()]));
        assert_eq!(said(&[], true, true), Ok(vec!["127.0.0.1:21211 tls login".to_owned()]));
    }

    #[test]
    fn each_place_asks_what_its_row_says() {
        let plain = ListenRow { tls: Some(false), ..row("127.0.0.1:1") };
        let local =
            ListenRow { tls: Some(false), login: Some(false), mode: Some(0o600), ..row("unix:/run/a") };
        let expected = ["0.0.0.0:2 tls login", "127.0.0.1:1 login", "unix:/run/a"].map(str::to_owned);
        assert_eq!(said(&[row("0.0.0.0:2"), plain, local.clone()], true, true), Ok(expected.to_vec()));
        let places = places(&[row("127.0.0.1:1"), local], &Settings::default(), false, false).expect("good");
        let Listen::Unix { mode, .. } = places[1].at else { panic!("it is a socket in the file system") };
        assert_eq!(mode, 0o600);
    }

    #[test]
    fn what_could_not_be_meant_is_refused() {
        let refused = |rows: &[ListenRow], has_tls, has_users| {
            said(rows, has_tls, has_users).expect_err("it is refused")
        };
        let twice = refused(&[row("127.0.0.1:1"), row("127.0.0.1:1")], false, false);
        assert!(twice.contains("127.0.0.1:1 is there twice"), "{twice}");
        assert!(said(&[row("127.0.0.1:0"), row("127.0.0.1:0")], false, false).is_ok());
        let (tls, login) = (
            |tls| ListenRow { tls: Some(tls), ..row("127.0.0.1:1") },
            |login| ListenRow { login: Some(login), ..row("127.0.0.1:1") },
        );
        let error = refused(&[tls(true)], false, false);
        assert!(error.contains("127.0.0.1:1 is to speak TLS: give --tls-cert"), "{error}");
        let error = refused(&[login(true)], false, false);
        assert!(error.contains("give --auth-file"), "{error}");
        let error = refused(&[tls(false)], true, false);
        assert!(error.contains("--tls-cert is used nowhere"), "{error}");
        let error = refused(&[login(false)], false, true);
        assert!(error.contains("--auth-file is used nowhere"), "{error}");
        let many: Vec<_> = (1..=LISTENERS_MAX + 1).map(|port| row(&format!("127.0.0.1:{port}"))).collect();
        let error = refused(&many, false, false);
        assert!(error.contains("65 places"), "{error}");
    }
}
