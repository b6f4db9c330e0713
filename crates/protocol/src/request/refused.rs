use crate::Refusal;

/// A line that makes no request.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) refusal: Refusal,
    /// memcached is silent here.
    pub(super) silent: bool,
}

impl Refused {
    pub(super) const UNKNOWN: Self = Self::new(Refusal::Unknown, false);

    pub(super) const fn new(refusal: Refusal, silent: bool) -> Self {
        Self { refusal, silent }
    }
}
