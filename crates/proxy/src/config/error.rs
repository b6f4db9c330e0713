//! Why a configuration was refused: what is wrong, and what to do.

use crate::{
    config::{
        logins::LoginFileError,
        settings::{Engine, SPLIT_THREADS_MAX, Setting},
    },
    connections::tls::TlsError,
};
use std::path::PathBuf;
use weir_dataplane::NotWhole;
use weir_routing::TableError;

/// What of a configuration an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    /// A setting, by its name; with `_` between words, or `-` as in its flag.
    Setting(&'a str),
    /// A place of `[[listen]]`, by its address.
    Listen(&'a str),
    /// A user of `[[users]]`, by the name.
    User(&'a str),
}

impl ConfigError {
    /// What it is about; `None` where that is no one of these.
    pub fn subject(&self) -> Option<Subject<'_>> {
        Some(match self {
            Self::Stray { row, .. } => Subject::Setting(row.name),
            Self::Resolve { setting, .. }
            | Self::Needs { setting, .. }
            | Self::NowhereAsked { setting, .. } => Subject::Setting(setting),
            Self::Tls(error) => Subject::Setting(error.setting()),
            Self::LoginFile(error) => Subject::Setting(error.setting()),
            Self::ServerName { .. } => Subject::Setting("server_name"),
            Self::AdminToken { .. } => Subject::Setting("admin_token_file"),
            Self::SplitThreads { .. } => Subject::Setting("readers"),
            Self::NotWhole { .. } => Subject::Setting("multiget"),
            Self::ReadRepairEngine(_) | Self::ReadRepairFlush => Subject::Setting("read_repair"),
            Self::ListenTwice { address }
            | Self::ListenTls { address }
            | Self::ListenLogin { address }
            | Self::ListenPool { address, .. } => Subject::Listen(address),
            Self::UserWithoutPassword { user } | Self::UserCertificate { user } => Subject::User(user),
            // What flags say of it goes before the file; the server itself is not named by a setting.
            Self::OwnServer { .. } => Subject::Setting("listen"),
            Self::ServerUnnamed { .. }
            | Self::ServerTwoWays { .. }
            | Self::ServerTwoLogins { .. }
            | Self::UsersEngine(_)
            | Self::TooManyListeners { .. }
            | Self::ListenPoolEngine(_)
            | Self::NobodyServed
            | Self::Table(_) => return None,
        })
    }
}

/// Why settings that are good each for itself were refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Something was said to an engine to which it means nothing.
    #[error("--{} belongs to --engine {}, and the engine is {engine}: leave it out, or change the engine",
        row.flag(), row.engine_names())]
    Stray {
        /// What was said.
        row: &'static Setting,
        /// How requests are served.
        engine: Engine,
    },
    /// A name could not be resolved.
    #[error(
        "--{setting} `{address}` cannot be resolved: {source}; check the name, or give an address, for example 127.0.0.1:11211"
    )]
    Resolve {
        /// What the address is for.
        setting: &'static str,
        /// As it was given.
        address: String,
        /// Why.
        source: std::io::Error,
    },
    /// A setting means nothing without another.
    #[error("--{setting} means nothing without --{needs}: give both, or none")]
    Needs {
        /// What was said.
        setting: &'static str,
        /// What was not.
        needs: &'static str,
    },
    /// No certificate could have that name.
    #[error("--server-name {name:?} is neither a name of a host nor an IP address")]
    ServerName {
        /// As it was given.
        name: String,
    },
    /// A server could prove no name.
    #[error("server {server} has no name that a certificate could have: give --server-name")]
    ServerUnnamed {
        /// The server.
        server: String,
    },
    /// One connection serves all pools that have the server.
    #[error("server {server} is in several pools, which differ in its TLS: say the same of it in each")]
    ServerTwoWays {
        /// The server.
        server: String,
    },
    /// The same of logins.
    #[error(
        "server {server} is in several pools, which differ in its server_auth_file: say the same of it in each"
    )]
    ServerTwoLogins {
        /// The server.
        server: String,
    },
    /// A file with certificates or a key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A file with passwords cannot be used.
    #[error(transparent)]
    LoginFile(#[from] LoginFileError),
    /// The file of the admin port's token cannot be used.
    #[error("--admin-token-file {}: {reason}", path.display())]
    AdminToken {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Somebody could never log in.
    #[error(
        "user {user} of [[users]] has neither a password in --auth-file nor a certificate: give one of them"
    )]
    UserWithoutPassword {
        /// Who.
        user: String,
    },
    /// No client would show a certificate.
    #[error("user {user} of [[users]] has a certificate, which no client is asked for: give --tls-client-ca")]
    UserCertificate {
        /// Who.
        user: String,
    },
    /// Users mean nothing to an engine.
    #[error(
        "[[users]] belong to --engine event, and the engine is {0}: leave them out, or change the engine"
    )]
    UsersEngine(Engine),
    /// There are too many places where clients connect.
    #[error("there are {count} places of [[listen]], more than {most}: remove some")]
    TooManyListeners {
        /// How many there are.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// Two places are one.
    #[error("[[listen]] {address} is there twice: remove one")]
    ListenTwice {
        /// Its address.
        address: String,
    },
    /// A place cannot speak TLS.
    #[error("[[listen]] {address} is to speak TLS: give --tls-cert")]
    ListenTls {
        /// Its address.
        address: String,
    },
    /// Nobody could log in at a place.
    #[error("[[listen]] {address} is to want a login, and nobody can log in: give --auth-file or [[users]]")]
    ListenLogin {
        /// Its address.
        address: String,
    },
    /// A place has a pool that is not there, or none where no keys go by routes.
    #[error("[[listen]] {address}: there is {} for its clients", pool.as_ref().map_or("no pool that takes keys by routes".to_owned(), |pool| format!("no pool {pool}")))]
    ListenPool {
        /// Its address.
        address: String,
        /// The pool that it names, if it does.
        pool: Option<String>,
    },
    /// Places with pools mean nothing to an engine.
    #[error(
        "[[listen]] with a pool belongs to --engine event, and the engine is {0}: start a proxy for each pool with --pool and --listen, or change the engine"
    )]
    ListenPoolEngine(Engine),
    /// There is neither a table for routes nor a pool of a place.
    #[error("there is no pool: give at least one")]
    NobodyServed,
    /// Pools cannot be served side by side.
    #[error(transparent)]
    Table(#[from] TableError),
    /// What keeps clients out is asked for nowhere.
    #[error("--{setting} is used nowhere: every [[listen]] has {key} = false; leave that out at one of them")]
    NowhereAsked {
        /// What was said.
        setting: &'static str,
        /// What each place has.
        key: &'static str,
    },
    /// There would be too many threads.
    #[error(
        "--readers {readers} and one writer for each of {servers} servers are more than {SPLIT_THREADS_MAX} threads: give fewer readers"
    )]
    SplitThreads {
        /// Readers of each server.
        readers: usize,
        /// How many servers there are.
        servers: usize,
    },
    /// The proxy would be its own client.
    #[error(
        "server {server} is where --listen {listen} is: the proxy would ask itself; give memcached's port, or listen elsewhere"
    )]
    OwnServer {
        /// The server.
        server: String,
        /// Where clients connect.
        listen: String,
    },
    /// No server of a pool has all keys of a multi-get.
    #[error("pool {pool}: --multiget whole: {reason}")]
    NotWhole {
        /// The pool.
        pool: String,
        /// Why.
        reason: NotWhole,
    },
    /// Nobody owns a key there.
    #[error(
        "--read-repair on needs --engine event: the engine {0} has no owner of a key that could put copies back in the order of its writes; leave one of them out"
    )]
    ReadRepairEngine(Engine),
    /// A copy could be put back behind a flush.
    #[error(
        "--read-repair on cannot be used with --allow-flush: a copy that is being put back could outlive a client's flush_all; leave one of them out"
    )]
    ReadRepairFlush,
}
