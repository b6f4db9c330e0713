//! Choices have names in flags, files and reports.

use std::{
    fmt::{self, Display},
    str::FromStr,
};

/// A choice among few, by name.
pub trait Word: Copy + PartialEq + fmt::Debug + Display + FromStr<Err = UnknownWord> + 'static {
    /// The name of each, and what it means.
    const WORDS: &'static [(&'static str, &'static str)];
}

/// A word that names none of the choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    word: String,
    known: &'static [(&'static str, &'static str)],
}

impl UnknownWord {
    /// This word is none of these.
    pub fn of<T: Word>(word: &str) -> Self {
        Self { word: word.to_owned(), known: T::WORDS }
    }
}

impl Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<_> = self.known.iter().map(|(name, _)| *name).collect();
        write!(f, "{:?} is none of {}", self.word, known.join(", "))
    }
}

impl std::error::Error for UnknownWord {}

/// A choice: a variant, its meaning and its name each. The first variant with `#[default]` is what holds if nothing is said.
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* pub enum $type:ident {
        $($(#[doc = $doc:literal])+ $(#[$default:ident])? $variant:ident = $name:literal,)+
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $type {
            $($(#[doc = $doc])+ $(#[$default])? $variant,)+
        }

        impl $type {
            /// All of them.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Its name in flags and files.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl $crate::Word for $type {
            const WORDS: &'static [(&'static str, &'static str)] =
                &[$(($name, concat!($($doc),+).trim_ascii())),+];
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl ::std::str::FromStr for $type {
            type Err = $crate::UnknownWord;

            fn from_str(word: &str) -> Result<Self, $crate::UnknownWord> {
                let known = Self::ALL.into_iter().find(|it| it.name() == word);
                known.ok_or_else(|| $crate::UnknownWord::of::<Self>(word))
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::{
        AskOnce, JoinGets, Multiget, NearCheck, OnFailure, OnStale, ReadPolicy, ReadRepair, ReplicasRequired,
        Word, WritePolicy,
    };

    fn check<T: Word>() {
        for (name, about) in T::WORDS {
            assert_eq!(name.parse::<T>().map(|it| it.to_string()).as_deref(), Ok(*name));
            assert!(!about.is_empty(), "{name}");
        }
    }

    #[test]
    fn names_round_trip_and_others_are_refused() {
        check::<Multiget>();
        check::<JoinGets>();
        check::<AskOnce>();
        check::<NearCheck>();
        check::<WritePolicy>();
        check::<ReadPolicy>();
        check::<ReplicasRequired>();
        check::<ReadRepair>();
        check::<OnStale>();
        check::<OnFailure>();
        let refusal = "split".parse::<Multiget>().unwrap_err().to_string();
        assert_eq!(refusal, "\"split\" is none of sharded, whole, auto");
    }
}
