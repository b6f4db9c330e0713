//! How multi-gets are asked for, and what becomes of those of which a part got no answer.

use crate::words;
use std::fmt;

words! {
    /// How a multi-get is asked for where keys have several replicas.
    pub enum Multiget {
        /// Every server answers for a part, and the parts are as equal as placement allows.
        #[default]
        Sharded = "sharded",
        /// One server answers for all keys. It must hold all, so every server must be a replica of every key.
        Whole = "whole",
        /// Whichever of the two was faster of late for about as many keys. Sharded where not every server holds every key.
        Auto = "auto",
    }
}

words! {
    /// What becomes of a retrieval of which a part got no answer.
    pub enum OnFailure {
        /// One `SERVER_ERROR` instead of all values.
        #[default]
        Strict = "strict",
        /// The keys of the part are misses, and counted.
        Degrade = "degrade",
    }
}

impl Multiget {
    /// Whether keys that `replicas` of `servers` hold can be asked for so.
    pub fn check(self, servers: usize, replicas: usize) -> Result<(), NotWhole> {
        if self == Self::Whole && replicas < servers { Err(NotWhole { servers, replicas }) } else { Ok(()) }
    }
}

/// No server has all keys of a multi-get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotWhole {
    servers: usize,
    replicas: usize,
}

impl fmt::Display for NotWhole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { servers, replicas } = self;
        write!(
            f,
            "multi-gets cannot be asked whole: each key is on {replicas} of {servers} servers, so none has all; \
             keep every key on {servers} (replicas), or let them be sharded"
        )
    }
}

impl std::error::Error for NotWhole {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_needs_every_key_on_every_server() {
        assert_eq!(Multiget::Whole.check(3, 3), Ok(()));
        assert_eq!(Multiget::Auto.check(3, 2), Ok(()));
        let refusal = Multiget::Whole.check(3, 2).unwrap_err().to_string();
        assert!(refusal.starts_with("multi-gets cannot be asked whole: each key is on 2 of 3 servers"));
    }
}
