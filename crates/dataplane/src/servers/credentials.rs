//! How the proxy logs in to servers that want it (memcached `-Y`).
//!
//! [`Credentials`] owns one name and one password. They are written to a server that has asked for a login on that connection, and to nobody
//! else: one that wants none would keep them as an item, which every client could read. [`ServerLogins`] says which server gets which, and
//! is not changed.

use crate::wire::secret::Secret;
use std::{collections::HashMap, fmt, sync::Arc};
use weir_protocol::Violation;
use weir_routing::{Endpoint, Server};

/// A name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    password: Secret,
    message: Secret,
}

impl Credentials {
    /// Neither has a space, a line ending or a NUL.
    pub fn new(name: &[u8], password: &[u8]) -> Self {
        let len = name.len() + 1 + password.len();
        let mut message = format!("set weir-login 0 0 {len}\r\n").into_bytes();
        for part in [name, b" ", password, b"\r\n"] {
            message.extend_from_slice(part);
        }
        Self { password: Secret::new(password), message: Secret::new(&message) }
    }

    /// As a server gets them.
    pub(super) fn message(&self) -> &[u8] {
        self.message.bytes()
    }

    /// Whether the password stands somewhere in what a server has said, or has begun at the end of what is kept of that.
    pub(super) fn are_in(&self, said: &[u8]) -> bool {
        let password = self.password.bytes();
        let is_inside = !password.is_empty() && said.windows(password.len()).any(|window| window == password);
        is_inside || (BEGINNING_BYTES_MIN..password.len()).any(|len| said.ends_with(&password[..len]))
    }

    /// What is wrong with a reply, for whoever looks for the trouble, without the password.
    pub(super) fn leave_out_of(&self, reason: Violation) -> Violation {
        match reason {
            Violation::UnexpectedLine(line) if self.are_in(line.as_bytes()) => {
                Violation::UnexpectedLine(REPEATED.to_owned())
            }
            Violation::BadValueLine(line) if self.are_in(line.as_bytes()) => {
                Violation::BadValueLine(REPEATED.to_owned())
            }
            other => other,
        }
    }
}

/// In the place of a server's words with the password in them.
pub(super) const REPEATED: &str = "(it repeats the password)";

/// Anything may end with fewer bytes of it.
const BEGINNING_BYTES_MIN: usize = 3;

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credentials")
    }
}

/// What each server gets that wants a login.
#[derive(Clone, Debug, Default)]
pub struct ServerLogins(HashMap<(Endpoint, String), Arc<Credentials>>);

impl ServerLogins {
    /// The server gets these.
    pub fn say(&mut self, server: &Server, credentials: &Arc<Credentials>) {
        self.0.insert(identity(server), Arc::clone(credentials));
    }

    /// What the server gets; `None`: nothing.
    pub fn of(&self, server: &Server) -> Option<&Arc<Credentials>> {
        self.0.get(&identity(server))
    }
}

/// What makes two servers one.
fn identity(server: &Server) -> (Endpoint, String) {
    (server.endpoint.clone(), server.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_gets_what_was_said_of_it() {
        let [ours, theirs] = [b"ours", b"them"].map(|word| Arc::new(Credentials::new(b"weir", word)));
        let servers = [Server::new("a", 1), Server::new("b", 1), Server::new("c", 1)];
        let mut logins = ServerLogins::default();
        logins.say(&servers[0], &ours);
        logins.say(&servers[1], &theirs);
        assert_eq!(servers.each_ref().map(|server| logins.of(server)), [Some(&ours), Some(&theirs), None]);
    }

    #[test]
    fn a_login_is_a_set_of_both_words() {
        let credentials = Credentials::new(b"weir", b"pass:word");
        assert_eq!(credentials.message(), b"set weir-login 0 0 14\r\nweir pass:word\r\n");
    }

    #[test]
    fn what_repeats_the_password_is_known_and_no_text_has_it() {
        let credentials = Credentials::new(b"weir", b"word");
        assert!(credentials.are_in(b"ERROR weir word\r\n") && credentials.are_in(b"word"));
        assert!(credentials.are_in(b"ERROR weir wor"), "the rest is cut off");
        assert!(!credentials.are_in(b"ERROR weir\r\n") && !credentials.are_in(b"wor\r\n"));
        let reason = |line: &str| credentials.leave_out_of(Violation::UnexpectedLine(line.to_owned()));
        assert_eq!(reason("weir word"), Violation::UnexpectedLine(REPEATED.to_owned()));
        assert_eq!(reason("weir"), Violation::UnexpectedLine("weir".to_owned()));
        assert_eq!(format!("{credentials:?}"), "Credentials");
    }
}
