//! Choices have names in flags, files and reports.

use crate::{JoinGets, Multiget, OnFailure, OnStale, ReadPolicy, ReadRepair, ReplicasRequired, WritePolicy};
use std::{fmt, str::FromStr};

/// A word that names none of the choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    word: String,
    known: String,
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is none of {}", self.word, self.known)
    }
}

impl std::error::Error for UnknownWord {}

macro_rules! named {
    ($type:ty) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                Self::ALL.into_iter().find(|it| it.name() == word).ok_or_else(|| UnknownWord {
                    word: word.to_owned(),
                    known: Self::ALL.map(Self::name).join(", "),
                })
            }
        }
    };
}

named!(Multiget);
named!(JoinGets);
named!(OnFailure);
named!(OnStale);
named!(WritePolicy);
named!(ReadPolicy);
named!(ReadRepair);
named!(ReplicasRequired);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_refused() {
        assert!(Multiget::ALL.into_iter().all(|it| it.to_string().parse() == Ok(it)));
        assert!(JoinGets::ALL.into_iter().all(|it| it.to_string().parse() == Ok(it)));
        assert!(WritePolicy::ALL.into_iter().all(|it| it.to_string().parse() == Ok(it)));
        assert!(ReadPolicy::ALL.into_iter().all(|it| it.to_string().parse() == Ok(it)));
        assert!(ReplicasRequired::ALL.into_iter().all(|it| it.to_string().parse() == Ok(it)));
        assert!(ReadRepair::ALL.into_iter().all(|it| it.to_string().parse() == Ok(it)));
        assert!(OnStale::ALL.into_iter().all(|it| it.to_string().parse() == Ok(it)));
        assert!(OnFailure::ALL.into_iter().all(|it| it.to_string().parse() == Ok(it)));
        let refusal = "split".parse::<Multiget>().unwrap_err().to_string();
        assert_eq!(refusal, "\"split\" is none of sharded, whole, auto");
    }
}
