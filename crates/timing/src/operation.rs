/// What a request asks for, as far as measurements distinguish requests.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// `get` or `gets` of one key.
    Get,
    /// `get` or `gets` of several keys.
    MultiGet,
    /// `gat` or `gats`: get and touch.
    Gat,
    /// `set`.
    Set,
    /// `add`.
    Add,
    /// `replace`.
    Replace,
    /// `append`.
    Append,
    /// `prepend`.
    Prepend,
    /// `cas`.
    Cas,
    /// `delete`.
    Delete,
    /// `incr`.
    Incr,
    /// `decr`.
    Decr,
    /// `touch`.
    Touch,
    /// Answered by the proxy itself: `version`, `stats`, a client's mistake.
    Local,
}

/// How one request went.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The client was answered with an error line.
    pub error: bool,
    /// Keys that the request named.
    pub keys: u32,
    /// Keys that were found; all others of a retrieval that did not fail were not. Of other requests it says nothing.
    pub hits: u32,
}

impl Operation {
    /// How many operations there are.
    pub const COUNT: usize = 14;

    /// Every operation, in the order of [`Self::index`].
    pub const ALL: [Self; Self::COUNT] = [
        Self::Get,
        Self::MultiGet,
        Self::Gat,
        Self::Set,
        Self::Add,
        Self::Replace,
        Self::Append,
        Self::Prepend,
        Self::Cas,
        Self::Delete,
        Self::Incr,
        Self::Decr,
        Self::Touch,
        Self::Local,
    ];

    /// The operation's name in records, metrics and axes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::MultiGet => "multiget",
            Self::Gat => "gat",
            Self::Set => "set",
            Self::Add => "add",
            Self::Replace => "replace",
            Self::Append => "append",
            Self::Prepend => "prepend",
            Self::Cas => "cas",
            Self::Delete => "delete",
            Self::Incr => "incr",
            Self::Decr => "decr",
            Self::Touch => "touch",
            Self::Local => "local",
        }
    }

    /// Whether it asks for values, so that its keys are found or not.
    #[inline]
    pub const fn is_retrieval(self) -> bool {
        matches!(self, Self::Get | Self::MultiGet | Self::Gat)
    }

    /// The operation's place in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn operations_are_numbered_in_order_and_named_differently() {
        for (index, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation.index(), index, "{}", operation.name());
        }
        let names: BTreeSet<_> = Operation::ALL.into_iter().map(Operation::name).collect();
        assert_eq!(names.len(), Operation::COUNT);
    }
}
