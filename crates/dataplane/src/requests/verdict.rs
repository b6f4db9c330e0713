//! Whether a request failed, why, and the words in which its client learns that.
//!
//! [`Verdict`] owns why a request failed, and what its operator wants failures to be. Of several failures the first is reported, but what
//! another loop says of a request that it has carried out takes the place of any. A refusal is what the client gets in any case.
//! [`Verdict`] answers whose fault a failure is, and what stands in records.

use crate::{Fault, requests::degrade::Degrades};
use std::sync::Arc;
use weir_protocol::{Refusal, Status};

/// How a request went.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// The answer is an error.
    is_error: bool,
    /// A part has failed, and its keys are misses.
    is_degraded: bool,
    /// Which failures of parts make their keys misses.
    degrades: Degrades,
    failure: Option<Failure>,
    /// The answer, whatever servers say.
    refusal: Option<Refusal>,
}

/// Why a request failed.
#[derive(Clone, Debug)]
enum Failure {
    /// A server did not answer.
    Fault(Fault, Arc<str>),
    /// A server answered with an error line.
    Line { line: Vec<u8>, status: Status },
    /// Another loop has carried it out, and says in a word how it went. The reply for the client came with that word.
    Elsewhere(&'static str),
}

impl Verdict {
    pub(crate) const NONE: Self =
        Self { is_error: false, is_degraded: false, degrades: Degrades::Never, failure: None, refusal: None };

    /// These failures are misses.
    #[inline]
    pub(crate) fn degrade_with(&mut self, degrades: Degrades) {
        self.degrades = degrades;
    }

    /// Which are.
    #[inline]
    pub(crate) const fn degrades(&self) -> Degrades {
        self.degrades
    }

    /// A part has failed, and its keys are misses.
    pub(crate) fn degrade(&mut self) {
        self.is_degraded = true;
    }

    /// The answer is an error.
    #[inline]
    pub(crate) const fn is_error(&self) -> bool {
        self.is_error
    }

    /// The answer is an error, or it is not.
    #[inline]
    pub(crate) fn set_error(&mut self, is_error: bool) {
        self.is_error = is_error;
    }

    /// The request is refused, and what it made servers do does not change that.
    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        self.is_error = true;
        self.refusal = Some(refusal);
    }

    /// What the refusal was to make servers do was not begun: the client is to hear that instead.
    pub(crate) const fn forget_refusal(&mut self) {
        self.refusal = None;
    }

    /// A server did not answer.
    pub(crate) fn fail(&mut self, fault: Fault, server: &Arc<str>) {
        self.is_error = true;
        self.failure.get_or_insert_with(|| Failure::Fault(fault, Arc::clone(server)));
    }

    /// A server answered with an error line.
    pub(crate) fn fail_with_line(&mut self, line: &[u8], status: Status) {
        self.is_error = true;
        self.failure.get_or_insert_with(|| Failure::Line { line: line.to_vec(), status });
    }

    /// The server is asked in another way: what it said to this one does not count.
    pub(crate) fn forgive(&mut self) {
        (self.is_error, self.failure) = (false, None);
    }

    /// Whether a server took the request for a mistake.
    pub(crate) const fn is_refused(&self) -> bool {
        matches!(self.failure, Some(Failure::Line { status: Status::Error | Status::ClientError, .. }))
    }

    /// Another loop has carried it out and got an error: how it went there, in a word.
    pub(crate) fn fail_elsewhere(&mut self, word: &'static str) {
        self.is_error = true;
        self.failure = Some(Failure::Elsewhere(word));
    }

    /// What the client gets instead of an answer, if anything failed.
    pub(crate) fn line(&self) -> Option<Vec<u8>> {
        if let Some(refusal) = self.refusal {
            return Some(refusal.reply().to_vec());
        }
        Some(match self.failure.as_ref()? {
            Failure::Line { line, .. } => line.clone(),
            Failure::Fault(fault, server) => {
                let mut line = Vec::new();
                fault.write_to(server, &mut line);
                line
            }
            Failure::Elsewhere(_) => return None,
        })
    }

    /// Whether anything failed.
    pub(crate) const fn is_impaired(&self) -> bool {
        self.is_error || self.is_degraded
    }

    /// Whether a server is to blame, and not the client's own request. If so: the fault, or none where the server said itself that it
    /// failed. What another loop has carried out is not judged here.
    pub(crate) fn blame(&self) -> Option<Option<Fault>> {
        match &self.failure {
            Some(Failure::Fault(fault, _)) => Some(Some(*fault)),
            Some(Failure::Line { status: Status::ServerError, .. }) => Some(None),
            Some(Failure::Line { .. } | Failure::Elsewhere(_)) | None => None,
        }
    }

    /// How it went, in a word for records.
    pub(crate) fn word(&self) -> &'static str {
        match &self.failure {
            _ if !self.is_error => {
                if self.is_degraded {
                    "degraded"
                } else {
                    "ok"
                }
            }
            Some(Failure::Fault(fault, _)) => fault.name(),
            Some(Failure::Line { status: Status::ServerError, .. }) => "server-error",
            Some(Failure::Line { .. }) => "client-error",
            Some(Failure::Elsewhere(word)) => word,
            None => "refused",
        }
    }
}
