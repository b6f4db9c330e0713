//! One server of which other servers have copies: what this dataplane knows it to lack, and how it is made to forget that.

use crate::{
    Dataplane, ServerChange,
    replication::follow::invalidation,
    replication::journal::{Bounds, Errand, Journal, Missed},
    replication::standing::{Share, Standing},
    replication::token::Tag,
    requests::dispatch::write_message,
    routes::Routes,
    servers::backend::{Backend, Purpose, State},
    servers::happened::{Ending, LostErrands},
    wire::key::WireKey,
};
use weir_protocol::{Expected, Reply, Status};
use weir_timing::Instant;

/// What a backend has besides, where keys have several servers.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) tag: Tag,
    pub(crate) share: Share,
    pub(crate) journal: Journal,
}

impl Replica {
    pub(crate) fn new(standing: &Standing, name: &str) -> Self {
        let (share, is_inherited) = standing.share(name);
        let mut journal = Journal::new();
        if is_inherited {
            journal.flush_instead();
        }
        Self { tag: Tag::of(name), share, journal }
    }

    /// Why the server is not read, as far as this dataplane is concerned.
    pub(crate) fn trouble(&self, now: Instant) -> Option<&'static str> {
        if !self.share.is_unclean() {
            return None;
        }
        Some(if self.journal.is_flush_refused() {
            "it missed too many writes and refuses flush_all (memcached -F): restart it"
        } else if self.journal.is_quarantined(now) {
            "its connection broke, and it may still carry out writes"
        } else if self.journal.is_flushing() {
            "it missed too many writes and is to be flushed"
        } else {
            "keys that it missed are to be deleted there"
        })
    }

    /// Returns whether it was unclean, and is not any more.
    fn clean_if_done(&mut self) -> bool {
        let is_fresh = self.share.is_unclean() && self.journal.is_done();
        if is_fresh {
            self.share.clean();
        }
        is_fresh
    }
}

impl Dataplane {
    /// Servers that hold copies of what others hold get what that needs. Who has it keeps it.
    pub(crate) fn prepare_replicas(&mut self, routes: &Routes) {
        self.keeps_journals |= routes.is_replicated();
        for slot in routes.replicated_slots() {
            if self.servers[slot].replica.is_some() {
                continue;
            }
            let replica = Replica::new(&self.standing, self.servers.slots.name(slot));
            let is_unclean = replica.share.is_unclean();
            self.servers[slot].replica = Some(Box::new(replica));
            if is_unclean {
                // Who went by it before has left it like that.
                self.servers.note_change(slot, ServerChange::FlushWanted);
            }
        }
    }

    /// The server lacks a write to this key, or may, or may still carry one out: it is not read until it has forgotten the key.
    pub(crate) fn miss(&mut self, server: usize, key: WireKey<'_>) {
        let Self { servers: backends, config, counters, .. } = self;
        let Some(replica) = backends[server].replica.as_mut().filter(|_| config.has_journal()) else {
            return;
        };
        let is_stale = replica.share.soil();
        counters.journal_keys += 1;
        let bounds = Bounds { keys: config.journal_keys_max, bytes: config.journal_bytes_max };
        let overflows = replica.journal.miss(Missed::of(key), bounds);
        counters.journal_overflows += u64::from(overflows);
        if is_stale {
            self.servers.note_change(server, ServerChange::Stale);
        }
        if overflows {
            self.servers.note_change(server, ServerChange::FlushWanted);
        }
    }

    /// Once per turn: makes servers forget what they missed.
    pub(crate) fn work_on_journals(&mut self, now: Instant) {
        let mut next = 0;
        while let Some(server) = self.servers.next_busy(next) {
            if self.servers[server].is_unclean() {
                self.work_on_journal(server, now);
            }
            next = server + 1;
        }
    }

    #[cold]
    fn work_on_journal(&mut self, server: usize, now: Instant) {
        let Self { servers: backends, config, counters, .. } = self;
        let backend = &mut backends[server];
        if !backend.takes_errands() {
            return;
        }
        while let Some(errand) = backend.replica.as_mut().and_then(|replica| replica.journal.next(now)) {
            match errand {
                Errand::Delete(missed) => {
                    let (message, expected) = invalidation(missed.wire());
                    backend.begin_own_message(Purpose::Delete, expected, config, now);
                    write_message(message, expected, backend);
                    counters.journal_deletes += 1;
                }
                Errand::Flush => {
                    backend.begin_own_message(Purpose::Flush, Expected::Flush, config, now);
                    backend.message().extend_from_slice(b"flush_all\r\n");
                    counters.journal_flushes += 1;
                }
            }
            backend.finish_message();
        }
    }

    /// A server answered what nobody but the proxy itself had asked.
    pub(crate) fn errand_replied(&mut self, server: usize, purpose: Purpose, reply: Reply, now: Instant) {
        let Self { servers: backends, config, counters, .. } = self;
        let Some(replica) = &mut backends[server].replica else { return };
        let mut change = None;
        match (purpose, reply.status.is_error()) {
            (Purpose::Delete, true) if reply.status == Status::ServerError => {
                counters.journal_deletes_refused += 1;
                replica.journal.refuse(now.plus(config.reconnect_delay_min_ns));
            }
            // What a server takes for no key it holds nothing of.
            (Purpose::Delete, _) => replica.journal.confirm(now, config.quarantine_ns),
            (Purpose::Flush, false) => {
                replica.journal.confirm_flush(now, config.quarantine_ns);
                change = Some(ServerChange::Flushed);
            }
            (Purpose::Flush, true) => {
                counters.journal_flushes_refused += 1;
                replica.journal.refuse_flush(now.plus(config.reconnect_delay_max_ns));
                change = Some(ServerChange::FlushRefused);
            }
            (Purpose::Request | Purpose::Barrier | Purpose::Step, _) => return,
        }
        let is_fresh = replica.clean_if_done();
        if let Some(change) = change {
            self.servers.note_change(server, change);
        }
        if is_fresh {
            self.servers.note_change(server, ServerChange::Fresh);
        }
    }

    /// A connection is gone that had `deletes` of ours, or a flush, on it, and perhaps writes that were not answered.
    pub(crate) fn lose_errands(&mut self, server: usize, lost: LostErrands, ending: Ending, now: Instant) {
        let Self { servers: backends, config, counters, .. } = self;
        let Some(replica) = &mut backends[server].replica else { return };
        replica.journal.lose(lost.deletes, lost.flush);
        if lost.writes && ending == Ending::Otherwise && replica.share.is_unclean() {
            counters.server_quarantines += 1;
            replica.journal.quarantine(now.plus(config.quarantine_ns));
            self.servers.note_change(server, ServerChange::Quarantined);
        }
    }
}

impl Backend {
    /// Whether this dataplane is unclean there.
    pub(crate) fn is_unclean(&self) -> bool {
        self.replica.as_ref().is_some_and(|replica| replica.share.is_unclean())
    }

    /// When there is something to be sent to make it clean.
    pub(crate) fn errands_due(&self) -> Option<Instant> {
        let replica = self.replica.as_ref().filter(|replica| replica.share.is_unclean())?;
        if self.takes_errands() { replica.journal.due() } else { None }
    }

    fn takes_errands(&self) -> bool {
        self.state == State::Up && !self.renewing
    }
}
