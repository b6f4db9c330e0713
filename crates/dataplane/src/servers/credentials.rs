//! How the proxy logs in to servers that want it (memcached `-Y`).
//!
//! [`Credentials`] owns one name and one password. They are written to a server that has asked for a login on that connection, and to nobody
//! else: one that wants none would keep them as an item, which every client could read.

use crate::wire::secret::Secret;
use std::fmt;

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

    /// Whether the password stands somewhere in what a server has said.
    pub(super) fn are_in(&self, said: &[u8]) -> bool {
        let password = self.password.bytes();
        !password.is_empty() && said.windows(password.len()).any(|window| window == password)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credentials")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_a_set_of_both_words() {
        let credentials = Credentials::new(b"weir", b"pass:word");
        assert_eq!(credentials.message(), b"set weir-login 0 0 14\r\nweir pass:word\r\n");
    }

    #[test]
    fn what_repeats_the_password_is_known_and_no_text_has_it() {
        let credentials = Credentials::new(b"weir", b"word");
        assert!(credentials.are_in(b"ERROR weir word\r\n") && credentials.are_in(b"word"));
        assert!(!credentials.are_in(b"ERROR weir\r\n") && !credentials.are_in(b"wor"));
        assert_eq!(format!("{credentials:?}"), "Credentials");
    }
}
