//! What is noted of a request in service: its row, if it is sampled, and what its reply brings, if it is looked at for hot keys.

use crate::meter::{hot_keys::Watched, trace::Traced};
use std::sync::Arc;

/// What is noted of one request. Of most nothing is, and one comparison says so.
#[derive(Debug)]
pub(crate) enum Noted {
    Nothing,
    /// What of its reply.
    Reply(Watched),
    /// A row, and what of its reply.
    Row(Box<Traced>, Watched),
}

impl Noted {
    /// Whether anything is.
    #[inline(always)]
    pub(crate) const fn is_any(&self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// Nothing is noted any more.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        if self.is_any() {
            self.forget();
        }
    }

    #[cold]
    fn forget(&mut self) {
        *self = Self::Nothing;
    }

    /// A message to this server left a queue that had been so long when it entered.
    #[inline(always)]
    pub(crate) fn note_server(&mut self, server: &Arc<str>, queue_length: u64) {
        if let Self::Row(row, _) = self {
            row.note_server(server, queue_length);
        }
    }

    /// Its reply has this many bytes. Answers what is to be noted of them.
    pub(crate) fn note_reply(&mut self, bytes: usize) -> Watched {
        match self {
            Self::Nothing => Watched::Nothing,
            Self::Reply(watched) => *watched,
            Self::Row(row, watched) => {
                row.note_reply(bytes);
                *watched
            }
        }
    }

    /// What is to be noted of its reply, or of a part of it.
    pub(crate) const fn watched(&self) -> Watched {
        match self {
            Self::Nothing => Watched::Nothing,
            Self::Reply(watched) | Self::Row(_, watched) => *watched,
        }
    }

    /// Its row.
    pub(crate) fn take_row(&mut self) -> Option<Box<Traced>> {
        match std::mem::replace(self, Self::Nothing) {
            Self::Row(row, _) => Some(row),
            Self::Nothing | Self::Reply(_) => None,
        }
    }
}
