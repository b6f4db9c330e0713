//! What a run sends: commands, keys, values, and how they are spread.
//!
//! | file | holds |
//! |---|---|
//! | `amount` | distributions of sizes, times and counts |
//! | `command` | the commands and their shares |
//! | `popularity` | how often each key is asked for |
//! | `preset` | published workloads by name |

use serde::{Serialize, Serializer};

pub(crate) mod amount;
pub(crate) mod command;
#[cfg(test)]
pub(crate) mod fit;
pub(crate) mod popularity;
pub(crate) mod preset;

pub use amount::{Amount, Part, Tail};
pub use command::{Command, Mix};
pub use popularity::Popularity;
pub use preset::{Preset, PresetError};

/// What a run sends.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Content {
    /// Commands and their shares.
    pub mix: Mix,
    /// What every key begins with.
    pub key_prefix: String,
    /// The number in the first key; the others follow.
    pub key_first: u64,
    /// Sizes of the keys in bytes, prefix included. A function of key and seed. A key is never shorter than its prefix and
    /// number; [`Amount::Fixed`] 0 is as long as these.
    pub key_size: Amount,
    /// Sizes of the values in bytes. A function of key and seed: every value of a key has the same.
    pub value_size: Amount,
    /// How requests are spread over the keys.
    pub popularity: Popularity,
    /// Keys of a `get` or `gets`.
    pub multiget: Amount,
    /// Expiry times of what is written, in seconds; 0 is never.
    pub ttl: Amount,
    /// Whether a key that a read does not find is set at once.
    pub read_through: bool,
    /// Requests after which a connection is closed and opened anew.
    pub reconnect_after: Option<Amount>,
    /// Whether each key is written by one connection only, so that outdated reads can be recognised.
    pub one_writer: bool,
    /// Requests over all connections, after which the run ends.
    pub requests: Option<u64>,
}

impl Default for Content {
    fn default() -> Content {
        Content {
            mix: Mix::of_writes(0.1),
            key_prefix: String::new(),
            key_first: 0,
            key_size: Amount::Fixed(16),
            value_size: Amount::Fixed(128),
            popularity: Popularity::Uniform,
            multiget: Amount::Fixed(1),
            ttl: Amount::Fixed(0),
            read_through: false,
            reconnect_after: None,
            one_writer: false,
            requests: None,
        }
    }
}

/// In a record these stand as they are written on the command line.
macro_rules! serialized_as_text {
    ($($name:ident),*) => {
        $(impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        })*
    };
}

serialized_as_text!(Amount, Mix, Popularity);
