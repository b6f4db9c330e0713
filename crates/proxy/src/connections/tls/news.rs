//! What became of a connection that speaks TLS: reported once, and counted.

use rustls::{AlertDescription, Error};
use weir_dataplane::Counters;

/// What has happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Its handshake is done.
    Shaken {
        /// With a ticket of an earlier connection, which costs less.
        resumed: bool,
    },
    /// There will be no handshake.
    Failed(Failure),
    /// What came after the handshake was no record of it.
    Broken,
    /// It ended without saying so in TLS. (Many programs do that.)
    Cut,
}

/// Why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// What came is not TLS.
    Plain,
    /// The peer has no certificate, or none that is trusted.
    Certificate,
    /// The peer broke it off, as those do who do not trust our certificate.
    Alert,
    /// Anything else: no version or cipher in common, nonsense, the end of the connection.
    Other,
}

impl Failure {
    pub(super) fn of(error: &Error) -> Self {
        match error {
            Error::InvalidCertificate(_) | Error::NoCertificatesPresented => Self::Certificate,
            Error::AlertReceived(alert) if *alert != AlertDescription::CloseNotify => Self::Alert,
            _ => Self::Other,
        }
    }
}

impl News {
    /// Counts what has become of a client's connection.
    pub(crate) fn count(self, counters: &mut Counters) {
        match self {
            Self::Shaken { resumed } => {
                counters.tls_handshakes += 1;
                counters.tls_handshakes_resumed += u64::from(resumed);
            }
            Self::Failed(Failure::Plain) => counters.sessions_refused_plain += 1,
            Self::Failed(failure) => {
                counters.tls_handshakes_failed += 1;
                counters.tls_handshakes_failed_certificate += u64::from(failure == Failure::Certificate);
                counters.tls_handshakes_failed_alert += u64::from(failure == Failure::Alert);
            }
            Self::Broken => counters.tls_broken += 1,
            Self::Cut => counters.tls_cut += 1,
        }
    }
}
