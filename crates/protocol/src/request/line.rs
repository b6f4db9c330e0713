use super::command::Request;
use super::meta::Meta;
use super::refused::Refused;
use super::storage::Storage;
use crate::Refusal;

/// What one family of commands makes of its line.
pub(super) enum Line<'a> {
    Request(Request<'a>),
    Refused(Refused),
    /// A storage command whose data block is still to be read.
    Storage {
        header: Storage<'a>,
        value_len: usize,
    },
    /// The same for `ms`.
    Meta {
        header: Meta<'a>,
        value_len: usize,
    },
    Hangup,
}

impl<'a> Line<'a> {
    pub(super) const UNKNOWN: Self = Self::Refused(Refused::UNKNOWN);

    pub(super) const fn refused(refusal: Refusal, silent: bool) -> Self {
        Self::Refused(Refused::new(refusal, silent))
    }

    /// A request that is complete with its line.
    #[inline]
    pub(super) fn request<T>(parsed: Result<T, Refused>, request: impl FnOnce(T) -> Request<'a>) -> Self {
        parsed.map_or_else(Self::Refused, |parsed| Self::Request(request(parsed)))
    }

    #[inline]
    pub(super) fn storage(parsed: Result<(Storage<'a>, usize), Refused>) -> Self {
        parsed.map_or_else(Self::Refused, |(header, value_len)| Self::Storage { header, value_len })
    }

    #[inline]
    pub(super) fn meta(parsed: Result<(Meta<'a>, Option<usize>), Refused>) -> Self {
        match parsed {
            Ok((header, Some(value_len))) => Self::Meta { header, value_len },
            Ok((meta, None)) => Self::Request(Request::Meta(meta)),
            Err(refused) => Self::Refused(refused),
        }
    }
}
