//! Why a proxy could not run, or cannot go on, and what its operator can do about it.

use nix::errno::Errno;
use std::io::{self, ErrorKind};

/// Why a proxy could not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A port could not be opened.
    #[error("cannot listen on {address} ({role}): {source}; {}", advice(source, address))]
    Listen {
        /// What the port is for.
        role: &'static str,
        /// The port.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The service manager handed over what was not asked for.
    #[error("the service manager handed over {what}")]
    Inherited {
        /// What it was, what was asked for, and what to do.
        what: String,
    },
    /// The kernel refused something that a proxy cannot do without.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A file of records could not be opened.
    #[error("cannot append records to {path}: {source}")]
    Record {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// No client could be served.
    #[error(
        "the process may have {limit} descriptors, and servers, threads and files need {needed} with one client: raise the limit \
         (LimitNOFILE of systemd, ulimit -n), or use fewer threads"
    )]
    Descriptors {
        /// How many it may have.
        limit: usize,
        /// How many it needs.
        needed: usize,
    },
    /// A thread ended that should not have.
    #[error("thread {name} has ended: {why}")]
    Thread {
        /// Which.
        name: String,
        /// Why.
        why: String,
    },
}

/// What to do about an address that cannot be listened on.
fn advice(error: &io::Error, address: &str) -> &'static str {
    let is_path = address.starts_with("unix:");
    match error.kind() {
        ErrorKind::AddrInUse => "end the process that uses it, or give another address",
        ErrorKind::PermissionDenied if is_path => {
            "this user may not make a socket there: give a path in a folder that it may write to"
        }
        ErrorKind::PermissionDenied => {
            "this user may not open that port: give one from 1024 on, or grant CAP_NET_BIND_SERVICE"
        }
        ErrorKind::AddrNotAvailable => {
            "this machine has no such address: give one that `ip address` shows, or 0.0.0.0 (or [::]) for all of them"
        }
        ErrorKind::NotFound if is_path => "the folder is not there: make it first, or give another path",
        ErrorKind::NotADirectory if is_path => "what should be a folder is a file: give another path",
        ErrorKind::ReadOnlyFilesystem if is_path => "nothing can be written there: give another path",
        ErrorKind::AlreadyExists if is_path => "remove it, or give another path",
        _ if error.raw_os_error() == Some(Errno::EAFNOSUPPORT as i32) => {
            "this machine has no addresses of that family: give one of another (IPv4 or IPv6)"
        }
        _ if [Errno::EMFILE, Errno::ENFILE].iter().any(|it| error.raw_os_error() == Some(*it as i32)) => {
            "the limit of open files is reached: raise it (ulimit -n, LimitNOFILE=)"
        }
        _ => "give another address",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_about_the_reason() {
        let advice = |errno: Errno, address| advice(&io::Error::from_raw_os_error(errno as i32), address);
        for (errno, address, expected) in [
            (Errno::EADDRINUSE, "127.0.0.1:80", "end the process that uses it"),
            (Errno::EADDRINUSE, "unix:/run/a", "end the process that uses it"),
            (Errno::EACCES, "127.0.0.1:80", "this user may not open that port"),
            (Errno::EACCES, "unix:/run/a", "this user may not make a socket there"),
            (Errno::EADDRNOTAVAIL, "10.1.2.3:80", "this machine has no such address"),
            (Errno::ENOENT, "unix:/run/no/a", "the folder is not there"),
            (Errno::ENOTDIR, "unix:/etc/passwd/a", "what should be a folder is a file"),
            (Errno::EROFS, "unix:/sys/a", "nothing can be written there"),
            (Errno::EEXIST, "unix:/run/a", "remove it"),
            (Errno::EAFNOSUPPORT, "[::1]:80", "this machine has no addresses of that family"),
            (Errno::EMFILE, "127.0.0.1:80", "the limit of open files is reached"),
            (Errno::EINVAL, "127.0.0.1:80", "give another address"),
        ] {
            assert!(advice(errno, address).starts_with(expected), "{errno}");
        }
    }
}
