//! What the admin port asks of who asks it: a token, and TLS.
//!
//! ```text
//!   --admin-token-file ─────────────────┐
//!   --admin-tls-cert, --admin-tls-key ──┴─▶ AdminAccess ◀── renew ── a reload
//!                                              │ takes, terms
//!                                              └──▶ the admin port
//! ```
//!
//! [`AdminAccess`] is shared by all who have the configuration, so that a reload holds for the next question. A reload may bring a token and
//! replace it; it takes neither the token nor TLS from a port that serves ([`AdminAccess::refusal`]). The token is only compared: nothing
//! hands it out, and no text has it.

use crate::{
    config::{error::ConfigError, settings::Settings},
    connections::tls::{Named, server_terms},
    process::files::read_file,
};
use rustls::ServerConfig;
use std::{
    fmt,
    path::Path,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};
use weir_dataplane::Secret;

/// The longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 255;

/// What the admin port asks for.
#[derive(Default)]
pub(crate) struct AdminAccess(RwLock<Held>);

#[derive(Clone, Default)]
struct Held {
    token: Option<Secret>,
    terms: Option<Arc<ServerConfig>>,
}

impl AdminAccess {
    /// Reads the files.
    pub(super) fn read(settings: &Settings) -> Result<Self, ConfigError> {
        let (token, cert, key) =
            (&settings.admin_token_file, &settings.admin_tls_cert, &settings.admin_tls_key);
        if settings.admin.is_none() {
            let said = [("admin-token-file", token), ("admin-tls-cert", cert), ("admin-tls-key", key)];
            let stray = said.into_iter().find(|(_, file)| file.is_some());
            return stray.map_or(Ok(Self::default()), |(setting, _)| {
                Err(ConfigError::Needs { setting, needs: "admin" })
            });
        }
        let terms = match (cert.as_deref(), key.as_deref()) {
            (None, None) => None,
            (None, Some(_)) => {
                return Err(ConfigError::Needs { setting: "admin-tls-key", needs: "admin-tls-cert" });
            }
            (Some(chain), key) => {
                let chain = Named::new("admin-tls-cert", chain);
                let key = key.map_or(chain, |path| Named::new("admin-tls-key", path));
                Some(Arc::new(server_terms(chain, key, None)?))
            }
        };
        let token = token.as_deref().map(token_of).transpose()?;
        Ok(Self(RwLock::new(Held { token, terms })))
    }

    /// Whether a question is answered that shows this token, or none.
    pub(crate) fn takes(&self, shown: Option<&[u8]>) -> bool {
        let held = self.held();
        held.token.as_ref().is_none_or(|token| shown.is_some_and(|shown| token.is(shown)))
    }

    /// What is spoken there, if that is TLS.
    pub(crate) fn terms(&self) -> Option<Arc<ServerConfig>> {
        self.held().terms.clone()
    }

    fn held(&self) -> RwLockReadGuard<'_, Held> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a port that serves cannot ask for what was read anew in place of this, if it cannot.
    pub(super) fn refusal(&self, read: &Self) -> Option<&'static str> {
        // One after the other: both may be the same.
        let read = read.held().clone();
        let held = self.held();
        if held.token.is_some() && read.token.is_none() {
            return Some(
                "the admin port cannot go without its token while it serves (admin-token-file); name a file with a token, or restart the proxy",
            );
        }
        (held.terms.is_some() != read.terms.is_some()).then_some(
            "the admin port cannot change between TLS and none while it serves (admin-tls-cert); restart the proxy",
        )
    }

    /// From now on it asks for what was read anew.
    pub(super) fn renew(&self, read: &Self) {
        let held = read.held().clone();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = held;
    }
}

impl fmt::Debug for AdminAccess {
    /// Neither the token nor the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AdminAccess")
    }
}

/// The token of a file: its one line. An error says nothing of what stands there.
fn token_of(path: &Path) -> Result<Secret, ConfigError> {
    let refused = |reason: String| ConfigError::AdminToken { path: path.to_owned(), reason };
    // One more than a line of the longest token and its end have.
    let bytes = read_file(path, TOKEN_BYTES_MAX as u64 + 2)
        .map_err(|source| refused(format!("it cannot be read: {source}")))?;
    let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Err(refused(
            "it is empty: write a token into it, for example of `openssl rand -hex 32`".to_owned(),
        ));
    }
    if line.len() > TOKEN_BYTES_MAX || !line.iter().all(u8::is_ascii_graphic) {
        return Err(refused(format!(
            "it has more than one line of at most {TOKEN_BYTES_MAX} letters, digits and signs without spaces"
        )));
    }
    Ok(Secret::new(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::{Layer, Table as _};
    use std::{
        env, fs, process,
        sync::atomic::{AtomicUsize, Ordering},
    };

    fn read(text: &[u8]) -> Result<AdminAccess, String> {
        // Tests run side by side, and some have tokens of one length.
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("weir-token-{}-{number}", process::id()));
        fs::write(&path, text).expect("the folder of temporary files can be written");
        let name = path.display().to_string();
        let settings =
            Settings::of(&Layer::of(&[("admin", "127.0.0.1:0"), ("admin_token_file", name.as_str())]));
        let read = AdminAccess::read(&settings).map_err(|error| error.to_string());
        fs::remove_file(&path).expect("it is there");
        read
    }

    #[test]
    fn only_the_token_of_the_file_is_taken() {
        for text in [&b"secret"[..], b"secret\n", b"secret\r\n"] {
            let access = read(text).expect("it is a token");
            assert!(access.takes(Some(b"secret")) && !access.takes(None), "{text:?}");
            for other in ["", "secre", "secrets", "Secret", "secret\n"] {
                assert!(!access.takes(Some(other.as_bytes())), "{other:?}");
            }
        }
        assert!(AdminAccess::default().takes(None));
    }

    #[test]
    fn a_reload_replaces_it() {
        let (access, newer) = (read(b"old").expect("a token"), read(b"newer").expect("a token"));
        access.renew(&newer);
        assert!(access.takes(Some(b"newer")) && !access.takes(Some(b"old")));
        access.renew(&AdminAccess::default());
        assert!(access.takes(None));
    }

    #[test]
    fn a_file_without_a_token_is_refused_without_its_words() {
        let long = vec![b'x'; TOKEN_BYTES_MAX + 1];
        for text in [&b""[..], b"\n", b"hidden word", b"hidden\nhidden\n", b"hidden\0", &long] {
            let reason = read(text).map(|_| ()).expect_err("it is no token");
            assert!(reason.starts_with("--admin-token-file /"), "{reason}");
            assert!(!reason.contains("hidden"), "{reason}");
        }
        assert!(read(&vec![b'x'; TOKEN_BYTES_MAX]).is_ok());
    }

    #[test]
    fn what_nobody_could_use_is_refused() {
        let refusal = |said: &[(&str, &str)]| {
            AdminAccess::read(&Settings::of(&Layer::of(said))).map(|_| ()).map_err(|error| error.to_string())
        };
        let expected = "--admin-token-file means nothing without --admin: give both, or none";
        assert_eq!(refusal(&[("admin_token_file", "/f")]), Err(expected.to_owned()));
        let expected = "--admin-tls-key means nothing without --admin-tls-cert: give both, or none";
        assert_eq!(refusal(&[("admin", "127.0.0.1:0"), ("admin_tls_key", "/f")]), Err(expected.to_owned()));
        assert_eq!(refusal(&[]), Ok(()));
    }
}
