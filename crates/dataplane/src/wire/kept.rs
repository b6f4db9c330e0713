//! A request that waits: in a queue of the driver's, or in a lent session for its key.
//!
//! Owns: the bytes of the request, or what of it is to be answered in its place. Asked: what it is. Answers: the same [`Parsed`] that it was
//! made of.

use weir_protocol::{Limits, Parsed, Refusal, RequestParser, door::Foreign};

/// A complete request, or what is to be answered in its place, in memory of its own.
#[derive(Clone, Debug)]
pub struct KeptRequest(What);

#[derive(Clone, Debug)]
enum What {
    Whole(Vec<u8>),
    Refused { refusal: Refusal, silent: bool },
    TooLarge { refusal: Refusal, key: Box<[u8]>, base64: bool, silent: bool, erases: bool },
    Foreign(Foreign),
}

impl KeptRequest {
    /// What was found at the front of `bytes`; `None` if that wants no answer.
    pub fn new(parsed: &Parsed<'_>, bytes: &[u8]) -> Option<Self> {
        Self::with(parsed, |len| bytes[..len].to_vec())
    }

    /// The same where the bytes are no longer at hand.
    pub(crate) fn of(parsed: &Parsed<'_>) -> Option<Self> {
        Self::with(parsed, |len| {
            let mut bytes = Vec::with_capacity(len);
            if let Parsed::Request { request, .. } = parsed {
                request.write_to(&mut bytes);
            }
            bytes
        })
    }

    fn with(parsed: &Parsed<'_>, whole: impl FnOnce(usize) -> Vec<u8>) -> Option<Self> {
        Some(Self(match *parsed {
            Parsed::Request { len, .. } => What::Whole(whole(len)),
            Parsed::Refused { refusal, silent, .. } => What::Refused { refusal, silent },
            Parsed::TooLarge { refusal, key, base64, silent, erases, .. } => {
                What::TooLarge { refusal, key: key.into(), base64, silent, erases }
            }
            Parsed::Hangup { refusal: Some(refusal) } => What::Refused { refusal, silent: false },
            Parsed::Foreign { foreign } => What::Foreign(foreign),
            Parsed::Hangup { refusal: None } | Parsed::Login { .. } | Parsed::Incomplete { .. } => {
                return None;
            }
        }))
    }

    /// What it is. It was measured when it was taken, so the longest value is not looked at: that may have changed since.
    pub fn parsed(&self, limits: Limits) -> Parsed<'_> {
        match &self.0 {
            What::Whole(bytes) => parse_whole(bytes, limits),
            What::Refused { refusal, silent } => {
                Parsed::Refused { refusal: *refusal, silent: *silent, len: 0 }
            }
            What::TooLarge { refusal, key, base64, silent, erases } => Parsed::TooLarge {
                refusal: *refusal,
                key,
                base64: *base64,
                silent: *silent,
                erases: *erases,
                len: 0,
                swallow: 0,
            },
            What::Foreign(foreign) => Parsed::Foreign { foreign: *foreign },
        }
    }

    /// How much memory it keeps beside itself, in bytes, about.
    pub fn capacity(&self) -> usize {
        if let What::Whole(bytes) = &self.0 { bytes.capacity() } else { 0 }
    }
}

/// A request from bytes that were found to be one whole request.
pub fn parse_whole(bytes: &[u8], limits: Limits) -> Parsed<'_> {
    RequestParser::new(Limits { value_bytes_max: usize::MAX, ..limits }).parse(bytes)
}
