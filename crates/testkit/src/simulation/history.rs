//! What all clients together have written to the keys that they share, and what may be read of it.
//!
//! Every value is written once, so a read says which write it has seen. Through one proxy, where writes go to all replicas that are not
//! marked down, this must hold: no read that began after a write was acknowledged sees a write before that one. Before it, that is:
//! answered, in whatever way, before the other one reached the proxy; or sent earlier by the same client. For a read of the client that has
//! sent the write it holds from then on, as soon as that is acknowledged. But what one of several servers decides the others have not heard
//! of until then: a read that was sent before may miss it where another server has become the decider since.
//!
//! A write that failed may have been carried out, or may still be. Reads may see it, or not, and now the one, now the other. That ends when
//! a write is acknowledged that reached the proxy after its failure was reported. After that it may not come back. Writes that overlap may
//! take effect in either order. A read that finds nothing says nothing: copies are forgotten for many reasons.

use std::collections::BTreeMap;

/// A point in the order of all that happens.
pub(super) type Moment = u64;

/// Names a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WriteId {
    key: Vec<u8>,
    index: usize,
}

#[derive(Debug, Default)]
pub(super) struct History {
    moment: Moment,
    /// Before then other servers may have decided.
    same_deciders_since: Moment,
    keys: BTreeMap<Vec<u8>, Vec<Write>>,
}

#[derive(Debug)]
struct Write {
    /// What it writes, or that it deletes.
    value: Option<Vec<u8>>,
    client: usize,
    /// One of several servers decides it.
    is_decided: bool,
    /// When its last byte reached the proxy.
    began: Moment,
    /// When its reply stood in the output, whatever it was.
    ended: Moment,
    acknowledged: bool,
}

/// What has not happened yet.
const NEVER: Moment = Moment::MAX;

impl History {
    /// Something else happens.
    pub(super) fn advance(&mut self) {
        self.moment += 1;
    }

    pub(super) fn moment(&self) -> Moment {
        self.moment
    }

    /// Another server may decide from now on.
    pub(super) fn change_deciders(&mut self) {
        self.same_deciders_since = self.moment;
    }

    /// A client has sent a write. Those of one client are to be noted in their order. `is_decided`: one of several servers decides it.
    pub(super) fn issue(
        &mut self,
        (client, is_decided): (usize, bool),
        key: &[u8],
        value: Option<Vec<u8>>,
    ) -> WriteId {
        let writes = self.keys.entry(key.to_vec()).or_default();
        writes.push(Write { value, client, is_decided, began: NEVER, ended: NEVER, acknowledged: false });
        WriteId { key: key.to_vec(), index: writes.len() - 1 }
    }

    /// It has reached the proxy.
    pub(super) fn begin(&mut self, id: &WriteId) {
        let moment = self.moment;
        self.write(id).began = moment;
    }

    /// It was answered.
    pub(super) fn end(&mut self, id: &WriteId, acknowledged: bool) {
        let moment = self.moment;
        let write = self.write(id);
        (write.ended, write.acknowledged) = (moment, acknowledged);
    }

    fn write(&mut self, id: &WriteId) -> &mut Write {
        let writes = self.keys.get_mut(&id.key).expect("an issued write has its key");
        &mut writes[id.index]
    }

    /// Whether anybody has sent this value.
    pub(super) fn is_issued(&self, key: &[u8], value: &[u8]) -> bool {
        self.seen(key, value).is_some()
    }

    fn seen(&self, key: &[u8], value: &[u8]) -> Option<(usize, &Write)> {
        let writes = self.keys.get(key)?;
        writes.iter().enumerate().find(|(_, write)| write.value.as_deref() == Some(value))
    }

    /// Whether a read that began at `began` may have found `value`. `reader`: the client that reads, if one does: behind its own writes it does
    /// not see what was before them, whether or not these were answered yet.
    pub(super) fn check(
        &self,
        key: &[u8],
        value: &[u8],
        (reader, began): (Option<usize>, Moment),
    ) -> Result<(), String> {
        let Some((index, seen)) = self.seen(key, value) else { return Ok(()) };
        let overwrites = |(later, write): &(usize, &Write)| {
            let is_later = seen.ended < write.began || (seen.client == write.client && index < *later);
            let is_known = !write.is_decided || self.same_deciders_since < write.began;
            let is_own = Some(write.client) == reader && write.began < began && is_known;
            write.acknowledged && (write.ended < began || is_own) && is_later
        };
        match self.keys[key].iter().enumerate().find(overwrites) {
            None => Ok(()),
            Some((_, write)) => {
                let text = String::from_utf8_lossy;
                Err(format!(
                    "{}: a read at {began} saw {:?} of client {} ({} to {}), but client {} had written {:?} ({} to {})",
                    text(key),
                    text(value),
                    seen.client,
                    seen.began,
                    seen.ended,
                    write.client,
                    write.value.as_deref().map(text),
                    write.began,
                    write.ended
                ))
            }
        }
    }

    /// Whether a replica may hold `value` when all is over.
    pub(super) fn check_at_the_end(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.check(key, value, (None, NEVER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A write of `value` from one moment to another.
    fn write(
        history: &mut History,
        client: usize,
        value: &str,
        (began, ended): (u64, u64),
        acknowledged: bool,
    ) {
        let id = history.issue((client, false), b"a", Some(value.as_bytes().to_vec()));
        history.moment = began;
        history.begin(&id);
        if ended != NEVER {
            history.moment = ended;
            history.end(&id, acknowledged);
        }
    }

    fn may_read(history: &History, value: &str, began: u64) -> bool {
        history.check(b"a", value.as_bytes(), (None, began)).is_ok()
    }

    #[test]
    fn what_was_acknowledged_hides_what_was_before() {
        let mut history = History::default();
        write(&mut history, 0, "old", (1, 3), true);
        write(&mut history, 1, "failed", (2, 4), false);
        write(&mut history, 2, "new", (5, 8), true);
        write(&mut history, 3, "beside", (6, 9), false);
        for value in ["old", "failed", "new", "beside"] {
            assert!(may_read(&history, value, 7), "{value}: the newest is not acknowledged yet");
        }
        assert!(!may_read(&history, "old", 9) && !may_read(&history, "failed", 9));
        assert!(may_read(&history, "new", 9) && may_read(&history, "beside", 9));
        assert!(history.is_issued(b"a", b"old") && !history.is_issued(b"a", b"other"));
    }

    #[test]
    fn who_has_written_reads_that_or_what_is_later() {
        let mut history = History::default();
        write(&mut history, 0, "old", (1, 2), true);
        write(&mut history, 1, "new", (3, 6), true);
        let may = |reader, began| history.check(b"a", b"old", (Some(reader), began)).is_ok();
        assert!(may(0, 5), "of another");
        assert!(may(1, 3) && !may(1, 4), "behind its own");
    }

    #[test]
    fn who_has_written_may_miss_what_another_server_decides_than_it_is_asked_of() {
        let mut history = History::default();
        write(&mut history, 0, "old", (1, 2), true);
        let new = history.issue((0, true), b"a", Some(b"new".to_vec()));
        history.moment = 3;
        history.begin(&new);
        history.moment = 8;
        history.end(&new, true);
        let may = |history: &History, began| history.check(b"a", b"old", (Some(0), began)).is_ok();
        assert!(!may(&history, 5), "the same server decides");
        history.moment = 4;
        history.change_deciders();
        assert!(may(&history, 5) && !may(&history, 9), "until it is acknowledged");
    }

    #[test]
    fn writes_that_overlap_may_take_effect_in_either_order() {
        let mut history = History::default();
        write(&mut history, 0, "one", (1, 6), true);
        write(&mut history, 1, "two", (5, 7), true);
        assert!(may_read(&history, "one", 9) && may_read(&history, "two", 9));
    }

    #[test]
    fn a_silent_write_is_before_what_its_client_writes_later() {
        let mut history = History::default();
        write(&mut history, 0, "silent", (1, NEVER), false);
        write(&mut history, 1, "other", (2, 3), true);
        assert!(may_read(&history, "silent", 9));
        write(&mut history, 0, "later", (4, 5), true);
        assert!(!may_read(&history, "silent", 9));
    }

    #[test]
    fn a_delete_hides_what_was_before() {
        let mut history = History::default();
        write(&mut history, 0, "old", (1, 3), true);
        let id = history.issue((1, false), b"a", None);
        history.moment = 4;
        history.begin(&id);
        history.moment = 5;
        history.end(&id, true);
        assert!(may_read(&history, "old", 5) && !may_read(&history, "old", 6));
    }
}
