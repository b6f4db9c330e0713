//! Certificates and keys, as files have them: PEM, one behind the other.

use crate::process::files::read_file;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::path::{Path, PathBuf};

/// No chain of certificates is longer than this.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Why a file with certificates or a key cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("--{setting} {}: {reason}", path.display())]
pub struct TlsError {
    setting: &'static str,
    path: PathBuf,
    reason: String,
}

impl TlsError {
    /// The setting that names the file, as its flag is called.
    pub(crate) const fn setting(&self) -> &'static str {
        self.setting
    }
}

/// A file that a setting names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'a> {
    setting: &'static str,
    path: &'a Path,
}

impl<'a> Named<'a> {
    pub(crate) fn new(setting: &'static str, path: &'a Path) -> Self {
        Self { setting, path }
    }

    /// Why it cannot be used.
    pub(super) fn refused(self, reason: impl Into<String>) -> TlsError {
        TlsError { setting: self.setting, path: self.path.to_owned(), reason: reason.into() }
    }

    /// Why it cannot be used as the key of that chain.
    pub(super) fn refused_as_key_of(self, chain: Self, error: &rustls::Error) -> TlsError {
        match error {
            rustls::Error::InconsistentKeys(_) => self.refused("it is the key of another certificate"),
            error => chain.refused(format!("it cannot be used: {error}")),
        }
    }

    fn read(self) -> Result<Vec<u8>, TlsError> {
        let bytes = read_file(self.path, FILE_BYTES_MAX)
            .map_err(|source| self.refused(format!("it cannot be read: {source}")))?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(self.refused("it is longer than 4 MiB, which no chain of certificates is"));
        }
        Ok(bytes)
    }

    /// All certificates of the file, in their order; at least one.
    pub(super) fn certificates(self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let bytes = self.read()?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
        let found = found.map_err(|error| self.refused(format!("it is no PEM: {error}")))?;
        if found.is_empty() {
            return Err(self.refused("it has no certificate (-----BEGIN CERTIFICATE-----)"));
        }
        Ok(found)
    }

    /// The first private key of the file. An error names the file, and nothing that stands in it.
    pub(super) fn key(self) -> Result<PrivateKeyDer<'static>, TlsError> {
        let bytes = self.read()?;
        PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| {
            self.refused(
                "it has no private key without a passphrase (-----BEGIN PRIVATE KEY-----, or EC or RSA before PRIVATE)",
            )
        })
    }

    /// The authorities that the file has.
    pub(super) fn authorities(self) -> Result<RootCertStore, TlsError> {
        let mut store = RootCertStore::empty();
        for certificate in self.certificates()? {
            let added = store.add(certificate);
            added.map_err(|error| self.refused(format!("a certificate of it is no authority's: {error}")))?;
        }
        Ok(store)
    }
}
