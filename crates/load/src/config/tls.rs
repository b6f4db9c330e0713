//! How targets are spoken to in TLS, as it was asked for: files and a name. `driver/socket.rs` reads the files.

use std::path::{Path, PathBuf};

/// How targets are spoken to in TLS.
#[derive(Debug, Clone, PartialEq)]
pub struct Tls {
    authorities: PathBuf,
    name: Option<String>,
    shown: Option<(PathBuf, PathBuf)>,
}

impl Tls {
    /// `authorities`: the file of those who sign the certificates of targets. `name`: what these certificates have to have; `None`: the
    /// host of the target. `shown`: files of the certificate that is shown to targets, and of its key.
    pub fn new(authorities: PathBuf, name: Option<String>, shown: Option<(PathBuf, PathBuf)>) -> Tls {
        Tls { authorities, name, shown }
    }

    pub(crate) fn authorities(&self) -> &Path {
        &self.authorities
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(crate) fn shown(&self) -> Option<(&Path, &Path)> {
        self.shown.as_ref().map(|(chain, key)| (chain.as_path(), key.as_path()))
    }
}
