//! Who may log in, and how the proxy logs in to servers: what the files say, and the file of `--config` about users.
//!
//! ```text
//!   --auth-file: user:password ──┐
//!                                ├──▶ Users         who a client is, and what it may
//!   [[users]] of --config ───────┘
//!   --server-auth-file, server_auth_file of pools and servers ──▶ ServerLogins      what each server gets that wants a login
//! ```
//!
//! An error names a file and a line, and nothing that stands there: it might be a password.

use crate::{
    config::{
        error::ConfigError,
        settings::{Engine, SaidOfServers, Settings, Table as _},
    },
    process::files::read_file,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};
use weir_dataplane::{Credentials, Secret, ServerLogins, User, Users};
use weir_routing::{Server, Table};

/// What the file of `--config` says of a user, `[[users]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserRow {
    /// The name, as in the file of `--auth-file`.
    pub name: String,
    /// A name of the certificate that stands for a password.
    pub certificate: Option<String>,
    /// The pools whose keys it may use; `None`: all.
    pub pools: Option<Vec<String>>,
    /// It may change nothing.
    pub read_only: bool,
}

/// Logins in both directions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Logins {
    users: Option<Arc<Users>>,
    servers: Option<Arc<ServerLogins>>,
}

/// Why a file with passwords cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("--{setting} {}{}: {reason}", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct LoginFileError {
    setting: &'static str,
    path: PathBuf,
    line: Option<usize>,
    reason: String,
}

impl LoginFileError {
    /// The setting that names the file, as its flag is called.
    pub(super) const fn setting(&self) -> &'static str {
        self.setting
    }
}

/// More users than this are a database's.
const USERS_MAX: usize = 1024;

/// A name has more passwords than the one before and the next only by mistake. Each login is compared with as many as any name has.
const PASSWORDS_MAX: usize = 8;

/// memcached reads no longer line of its file.
const LINE_BYTES_MAX: usize = 255;

impl Logins {
    /// Reads the files. `rows`: what the file of `--config` says of users; `of_servers`: what is said of these servers of the table, where
    /// that is not what `settings` say.
    pub(super) fn read(
        settings: &Settings,
        rows: &[UserRow],
        table: &Table,
        of_servers: &SaidOfServers,
    ) -> Result<Self, ConfigError> {
        if !rows.is_empty() && settings.engine != Engine::Event {
            return Err(ConfigError::UsersEngine(settings.engine));
        }
        let servers = servers(settings, table, of_servers)?.map(Arc::new);
        Ok(Self { users: users(settings, rows)?.map(Arc::new), servers })
    }

    /// Who may log in, if clients must.
    pub(crate) fn users(&self) -> Option<&Arc<Users>> {
        self.users.as_ref()
    }

    /// How the proxy logs in to servers that want it.
    pub(crate) fn servers(&self) -> Option<&Arc<ServerLogins>> {
        self.servers.as_ref()
    }
}

/// How the proxy logs in to each server, where `said` holds unless something else is said of it; `None`: to no server.
fn servers(
    said: &Settings,
    table: &Table,
    of_servers: &SaidOfServers,
) -> Result<Option<ServerLogins>, ConfigError> {
    // A wrong file is refused also where each server has another.
    let mut files = Files::default();
    said.server_auth_file.as_deref().map(|path| files.credentials(path)).transpose()?;
    let mut logins = ServerLogins::default();
    // A server in several pools has one connection for all of them.
    let mut files_of: HashMap<&Server, Option<PathBuf>> = HashMap::new();
    for pool in table.pools() {
        // By the names that they were given; those of the table may be others.
        for (given, server) in pool.router().servers().iter().zip(table.servers_of(pool)) {
            let own = of_servers.get(&(pool.name().to_owned(), given.name.clone())).map(Settings::of);
            let file = own.as_ref().unwrap_or(said).server_auth_file.clone();
            if files_of.get(server).is_some_and(|before| *before != file) {
                return Err(ConfigError::ServerTwoLogins { server: server.to_string() });
            }
            if let Some(path) = &file {
                logins.say(server, &files.credentials(path)?);
            }
            files_of.insert(server, file);
        }
    }
    Ok((!files.0.is_empty()).then_some(logins))
}

/// Files that were read, each once.
#[derive(Default)]
struct Files(HashMap<PathBuf, Arc<Credentials>>);

impl Files {
    fn credentials(&mut self, path: &Path) -> Result<Arc<Credentials>, LoginFileError> {
        if let Some(known) = self.0.get(path) {
            return Ok(Arc::clone(known));
        }
        let lines = read("server-auth-file", path)?;
        let Line { name, password } = lines.first().expect("there is a line in every file that is taken");
        let credentials = Arc::new(Credentials::new(name, password));
        self.0.insert(path.to_owned(), Arc::clone(&credentials));
        Ok(credentials)
    }
}

fn users(settings: &Settings, rows: &[UserRow]) -> Result<Option<Users>, ConfigError> {
    if settings.auth_file.is_none() && rows.is_empty() {
        return Ok(None);
    }
    let lines = settings.auth_file.as_deref().map_or(Ok(Vec::new()), |path| read("auth-file", path))?;
    let mut users: BTreeMap<Vec<u8>, User> = BTreeMap::new();
    for Line { name, password } in lines {
        let user = users.entry(name).or_insert_with_key(|name| User::new(name));
        user.add_password(Secret::new(&password));
    }
    for row in rows {
        let name = row.name.as_bytes();
        let user = users.entry(name.to_vec()).or_insert_with(|| User::new(name));
        if let Some(certificate) = &row.certificate {
            if settings.tls_client_ca.is_none() {
                return Err(ConfigError::UserCertificate { user: row.name.clone() });
            }
            user.set_certificate(certificate);
        }
        if let Some(pools) = &row.pools {
            user.set_pools(pools.clone());
        }
        if row.read_only {
            user.set_read_only();
        }
        if !user.can_log_in() {
            return Err(ConfigError::UserWithoutPassword { user: row.name.clone() });
        }
    }
    Ok(Some(Users::new(users.into_values())))
}

/// One line of such a file.
#[derive(Debug)]
struct Line {
    name: Vec<u8>,
    password: Vec<u8>,
}

/// All lines of a file, in memcached's format; at least one.
fn read(setting: &'static str, path: &Path) -> Result<Vec<Line>, LoginFileError> {
    let refused = |line, reason: String| LoginFileError { setting, path: path.to_owned(), line, reason };
    let bytes_max = (USERS_MAX * (LINE_BYTES_MAX + 1)) as u64;
    let bytes =
        read_file(path, bytes_max).map_err(|source| refused(None, format!("it cannot be read: {source}")))?;
    if bytes.len() as u64 > bytes_max {
        return Err(refused(None, format!("it is longer than {USERS_MAX} lines may be")));
    }
    parse(&bytes).map_err(|(line, reason)| refused(line, reason))
}

/// The lines of a text, or which one is wrong, from 1, and why.
fn parse(bytes: &[u8]) -> Result<Vec<Line>, (Option<usize>, String)> {
    let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if text.is_empty() {
        return Err((None, "it names nobody: write a line user:password for each".to_owned()));
    }
    let lines: Result<Vec<_>, _> = (1..)
        .zip(text.split(|&byte| byte == b'\n'))
        .map(|(number, line)| parse_line(line).map_err(|reason| (Some(number), reason.to_owned())))
        .collect();
    let lines = lines?;
    let mut known = HashSet::new();
    if let Some(number) = lines.iter().position(|line| !known.insert((&line.name, &line.password))) {
        return Err((Some(number + 1), "the line is there twice: remove one".to_owned()));
    }
    let mut passwords: HashMap<&[u8], usize> = HashMap::new();
    for (number, line) in (1..).zip(&lines) {
        let count = passwords.entry(&line.name).or_default();
        *count += 1;
        if *count > PASSWORDS_MAX {
            let reason =
                format!("a name has more than {PASSWORDS_MAX} passwords: remove those that nobody uses");
            return Err((Some(number), reason));
        }
    }
    match lines.len() {
        count if count > USERS_MAX => {
            Err((None, format!("it has {count} lines: at most {USERS_MAX} are taken")))
        }
        _ => Ok(lines),
    }
}

fn parse_line(line: &[u8]) -> Result<Line, &'static str> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() > LINE_BYTES_MAX {
        return Err("the line is longer than 255 bytes, of which memcached would read no more");
    }
    let Some(colon) = line.iter().position(|&byte| byte == b':') else {
        return Err("there is no colon in the line: write user:password");
    };
    let (name, password) = (&line[..colon], &line[colon + 1..]);
    if name.is_empty() || password.is_empty() {
        return Err("the name or the password is missing: write user:password");
    }
    if line.iter().any(|byte| [b' ', b'\r', 0].contains(byte)) {
        return Err("a space, a carriage return or a NUL is in the line, which no login can have");
    }
    Ok(Line { name: name.to_vec(), password: password.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &[u8]) -> String {
        let (line, reason) = parse(text).expect_err("it is wrong");
        format!("{line:?} {reason}")
    }

    #[test]
    fn a_good_file_is_read_with_or_without_its_last_line_ending() {
        for text in ["a:b\nc:d:e\na:x\n", "a:b\nc:d:e\na:x", "a:b\r\nc:d:e\r\na:x\r\n"] {
            let lines = parse(text.as_bytes()).expect("it is good");
            let read: Vec<_> = lines.iter().map(|line| (&*line.name, &*line.password)).collect();
            assert_eq!(read, [(&b"a"[..], &b"b"[..]), (b"c", b"d:e"), (b"a", b"x")], "{text:?}");
        }
    }

    #[test]
    fn a_bad_file_is_refused_with_its_line_and_without_its_words() {
        for (text, expected) in [
            ("", "None it names nobody"),
            ("\n", "None it names nobody"),
            ("a:b\n\nc:d\n", "Some(2) there is no colon"),
            ("a:b\nhidden\n", "Some(2) there is no colon"),
            (":hidden\n", "Some(1) the name or the password is missing"),
            ("hidden:\n", "Some(1) the name or the password is missing"),
            ("a:b\na:hid den\n", "Some(2) a space"),
            ("a:hidden\0\n", "Some(1) a space"),
            ("a:hidden\nb:c\na:hidden\n", "Some(3) the line is there twice"),
        ] {
            let refusal = refusal(text.as_bytes());
            assert!(refusal.starts_with(expected), "{text:?}: {refusal}");
            assert!(!refusal.contains("hid"), "{refusal}");
        }
        let long = format!("a:{}\n", "x".repeat(254));
        assert!(
            refusal(long.as_bytes()).starts_with("Some(1) the line is longer"),
            "{}",
            refusal(long.as_bytes())
        );
        let passwords =
            |count| (0..count).map(|number| format!("a:{number}\nb{number}:x\n")).collect::<String>();
        assert!(parse(passwords(PASSWORDS_MAX).as_bytes()).is_ok());
        let refused = refusal(passwords(PASSWORDS_MAX + 1).as_bytes());
        assert!(refused.starts_with("Some(17) a name has more than 8 passwords"), "{refused}");
        let many: String = (0..=USERS_MAX).map(|number| format!("a{number}:b\n")).collect();
        assert!(refusal(many.as_bytes()).starts_with("None it has 1025 lines"));
    }

    #[test]
    fn no_byte_makes_it_panic() {
        let good = b"user:password\nother:word\n";
        for place in 0..good.len() {
            for byte in 0..=u8::MAX {
                let mut text = good.to_vec();
                text[place] = byte;
                let _ = parse(&text);
                let _ = parse(&text[..place]);
            }
        }
    }
}
