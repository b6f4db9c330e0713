//! What a loop has reported of its servers: at the end it must be what is so.

use std::collections::BTreeSet;

use weir_dataplane::{Dataplane, ServerChange, Slot};

/// One loop's.
#[derive(Debug, Default)]
pub(super) struct Reported {
    /// The numbers of servers that it reported last as down, or not read.
    down: BTreeSet<Slot>,
    unread: BTreeSet<Slot>,
}

impl Reported {
    /// Takes what is reported. [`Dataplane::has_changes`] says before whether there is anything.
    pub(super) fn take(&mut self, dataplane: &mut Dataplane) -> Result<(), String> {
        loop {
            let is_promised = dataplane.has_changes();
            let change = dataplane.poll_change();
            if change.is_some() != is_promised {
                return Err(format!("a change is promised: {is_promised}, and reported: {change:?}"));
            }
            let Some(change) = change else { return Ok(()) };
            let slot = change.slot;
            match change.what {
                ServerChange::Up => _ = self.down.remove(&slot),
                ServerChange::Down(_) | ServerChange::MarkedDown { .. } => _ = self.down.insert(slot),
                ServerChange::Fresh => _ = self.unread.remove(&slot),
                ServerChange::Left => {
                    self.down.remove(&slot);
                    self.unread.remove(&slot);
                }
                ServerChange::Replaced(_) | ServerChange::QuestionUnknown => {}
                ServerChange::Stale
                | ServerChange::Quarantined
                | ServerChange::FlushWanted
                | ServerChange::FlushRefused
                | ServerChange::Flushed => _ = self.unread.insert(slot),
            }
        }
    }

    /// Nothing hinders any server any more, and it says of `unread` servers that it does not read them.
    pub(super) fn verdict(&self, unread: usize) -> Result<(), String> {
        if !self.down.is_empty() {
            return Err(format!("the servers {:?} were reported as down, and are up", self.down));
        }
        if self.unread.len() != unread {
            return Err(format!("{unread} servers are not read, and {:?} were reported", self.unread));
        }
        Ok(())
    }
}
