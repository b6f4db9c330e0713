use std::fmt;
use std::str::FromStr;

/// The rule that places keys on servers.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Consistent hashing as libmemcached's weighted ketama does it, and most client libraries after it: 160 points
    /// per server of average weight on a ring, keys hashed by MD5.
    #[default]
    Ketama,
    /// Java's `String.hashCode` of the key modulo the number of servers, in configured order; the next replicas are
    /// the next servers in that order. Adding a server moves nearly every key.
    Modulo,
}

/// A placement's name that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown placement {0:?}: use ketama or modulo")]
pub struct UnknownPlacement(String);

impl Placement {
    /// The placement's name in configuration and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ketama => "ketama",
            Self::Modulo => "modulo",
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Placement {
    type Err = UnknownPlacement;

    fn from_str(name: &str) -> Result<Self, UnknownPlacement> {
        [Self::Ketama, Self::Modulo]
            .into_iter()
            .find(|placement| placement.name() == name)
            .ok_or_else(|| UnknownPlacement(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_refused() {
        for placement in [Placement::Ketama, Placement::Modulo] {
            assert_eq!(placement.to_string().parse(), Ok(placement));
        }
        let error = "Ketama".parse::<Placement>().unwrap_err();
        assert_eq!(error.to_string(), "unknown placement \"Ketama\": use ketama or modulo");
    }
}
