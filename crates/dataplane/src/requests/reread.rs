//! What it takes to ask for a read again (`failover.rs`).

use crate::{
    wire::ids::Slot,
    wire::key::{Echo, write_meta},
};
use weir_protocol::{Expected, Meta, MetaVerb, RetrievalVerb};

/// What is remembered of a read that may be asked for again.
#[derive(Debug)]
pub(crate) struct Reread {
    /// How many changes the session had sent when this was sent.
    changes_before: u64,
    /// The table by which it was sent.
    generation: u64,
    pub(super) message: Question,
    /// Servers that were lost with it.
    #[expect(
        clippy::box_collection,
        reason = "it is rarely there, and every request in service has room for it"
    )]
    pub(super) tried: Option<Box<Vec<Slot>>>,
    /// A doubted server that has missed the key of an `mg`.
    pub(super) missed_by: Option<Slot>,
}

/// What the server was asked, but for the keys that its connection knows.
#[derive(Debug)]
pub(crate) enum Question {
    Get,
    Gets,
    Meta(Box<MetaQuestion>),
}

#[derive(Debug)]
pub(crate) struct MetaQuestion {
    /// The key by which it is placed.
    pub(super) name: Box<[u8]>,
    pub(super) bytes: Vec<u8>,
    pub(super) echo: Echo,
    /// The reply shows the item's token.
    pub(super) shows_token: bool,
}

impl Question {
    /// That of a retrieval; `None` if it writes.
    pub(crate) const fn of(verb: RetrievalVerb) -> Option<Self> {
        match verb {
            RetrievalVerb::Get => Some(Self::Get),
            RetrievalVerb::Gets => Some(Self::Gets),
            RetrievalVerb::Gat | RetrievalVerb::Gats => None,
        }
    }

    /// That of a meta command on the key that is placed by `name`; `None` if it may change items.
    pub(crate) fn of_meta(meta: Meta<'_>, name: &[u8], expected: Expected) -> Option<Self> {
        if meta.verb != MetaVerb::Get || meta.may_change_items() {
            return None;
        }
        let mut bytes = Vec::new();
        let echo = write_meta(meta, &mut bytes);
        if expected == Expected::MetaThenNoop {
            bytes.extend_from_slice(b"mn\r\n");
        }
        let shows_token = meta.flags().any(|word| word[0] == b'c');
        Some(Self::Meta(Box::new(MetaQuestion { name: name.into(), bytes, echo, shows_token })))
    }
}

impl Reread {
    /// Of a session that has sent this many changes, by the table with this number.
    pub(crate) const fn new(message: Question, changes_before: u64, generation: u64) -> Self {
        Self { changes_before, generation, message, tried: None, missed_by: None }
    }

    /// Whether nothing has changed that forbids to ask again.
    pub(crate) const fn is_current(&self, changes: u64, generation: u64) -> bool {
        self.changes_before == changes && self.generation == generation
    }

    /// Whether an answer to an `mg` is to be looked at, which this server has given.
    pub(crate) fn concerns(&self, is_doubted: bool) -> bool {
        is_doubted && matches!(self.message, Question::Meta(_)) || self.missed_by.is_some()
    }
}
