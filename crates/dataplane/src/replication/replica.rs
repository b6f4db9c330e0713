//! Servers of which other servers have copies: what this dataplane knows each of them to lack, and how they are made to forget that.
//!
//! [`Replicas`] owns each one's journal, its share in what all dataplanes know (`freshness.rs`) and its tag. It learns what a server
//! missed, what it answered to repair messages, and what was lost with a connection. It answers which servers are fresh and which are
//! doubted. What it sends goes through [`Servers`], and the client is never answered by it.

use crate::{
    Mutation,
    config::Config,
    meter::counters::Counters,
    replication::freshness::{Freshness, Share},
    replication::journal::{Bounds, Journal, Missed, RepairMessage},
    replication::token::Tag,
    routes::Routes,
    servers::Servers,
    servers::backend::{Purpose, sooner},
    servers::changes::ServerChange,
    servers::happened::{Ending, LostMessages},
    servers::message::write_message,
    wire::ids::Slot,
    wire::key::WireKey,
    wire::write::invalidation,
};
use std::sync::Arc;
use weir_protocol::{Expected, Reply, Status};
use weir_timing::Instant;

/// All of them, by slot.
#[derive(Debug)]
pub(crate) struct Replicas {
    config: Config,
    counters: Counters,
    freshness: Arc<Freshness>,
    by_slot: Vec<Option<Box<Replica>>>,
}

/// One server of which others have copies.
#[derive(Debug)]
struct Replica {
    tag: Tag,
    share: Share,
    journal: Journal,
}

impl Replica {
    fn new(freshness: &Freshness, name: &str) -> Self {
        let (share, is_inherited) = freshness.share(name);
        let mut journal = Journal::new();
        if is_inherited {
            journal.flush_instead();
        }
        Self { tag: Tag::of(name), share, journal }
    }

    /// Why the server is not read, as far as this dataplane is concerned.
    fn trouble(&self, now: Instant) -> Option<&'static str> {
        if !self.share.is_stale() {
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

    /// Returns whether it was stale, and is not any more.
    fn freshen_if_done(&mut self) -> bool {
        let is_fresh = self.share.is_stale() && self.journal.is_done();
        if is_fresh {
            self.share.mark_fresh();
        }
        is_fresh
    }
}

impl Replicas {
    pub(crate) fn new(config: &Config, freshness: Arc<Freshness>) -> Self {
        Self { config: config.clone(), counters: Counters::default(), freshness, by_slot: Vec::new() }
    }

    pub(crate) const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What the dataplanes of the process share.
    pub(crate) fn freshness(&self) -> &Freshness {
        &self.freshness
    }

    /// Whether there are any.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.by_slot.is_empty()
    }

    /// Servers that hold copies of what others hold get what that needs. Who has it keeps it.
    pub(crate) fn prepare(&mut self, routes: &Routes, servers: &mut Servers) {
        for slot in routes.replicated_slots() {
            if self.of(slot).is_some() {
                continue;
            }
            let replica = Replica::new(&self.freshness, servers.slots().name(slot));
            let is_stale = replica.share.is_stale();
            if self.by_slot.len() <= slot.index() {
                self.by_slot.resize_with(slot.index() + 1, || None);
            }
            self.by_slot[slot.index()] = Some(Box::new(replica));
            servers.have_copies(slot, is_stale);
            if is_stale {
                // Who went by it before has left it like that.
                servers.note_change(slot, ServerChange::FlushWanted);
            }
        }
    }

    /// The slot is no server's any more.
    pub(crate) fn forget(&mut self, slot: Slot) {
        if let Some(replica) = self.by_slot.get_mut(slot.index()) {
            *replica = None;
        }
    }

    #[inline]
    fn of(&self, slot: Slot) -> Option<&Replica> {
        self.by_slot.get(slot.index())?.as_deref()
    }

    /// A read goes to a server, and whether that is another than the first of its key.
    pub(crate) fn note_failed_over(&mut self, is_other: bool) {
        self.counters.reads_failed_over += u64::from(is_other);
    }

    // ── questions ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Whether a server lacks nothing that any dataplane knows of.
    #[inline]
    pub(crate) fn is_fresh(&self, slot: Slot) -> bool {
        self.of(slot).is_none_or(|replica| replica.share.is_fresh())
    }

    /// Whether what it misses is asked of others (`emptied.rs`).
    #[inline]
    pub(crate) fn is_doubted(&self, slot: Slot) -> bool {
        self.doubt_rank(slot) > 0
    }

    /// 0 if it is trusted; more for who was emptied later.
    #[inline]
    pub(crate) fn doubt_rank(&self, slot: Slot) -> u64 {
        self.of(slot).map_or(0, |replica| replica.share.doubt_rank())
    }

    /// What stands in its tokens.
    #[inline]
    pub(crate) fn tag(&self, slot: Slot) -> Option<Tag> {
        self.of(slot).map(|replica| replica.tag)
    }

    /// How many keys it has missed that are to be deleted there.
    pub(crate) fn missed(&self, slot: Slot) -> u64 {
        self.of(slot).map_or(0, |replica| replica.journal.len() as u64)
    }

    /// Why it is not read, as far as this dataplane is concerned.
    pub(crate) fn trouble(&self, slot: Slot, now: Instant) -> Option<&'static str> {
        self.of(slot)?.trouble(now)
    }

    // ── doubts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A connection to a server was closed, refused or broken, or its name has other addresses.
    pub(crate) fn note_may_be_empty(&mut self, slot: Slot) {
        if let Some(replica) = self.of(slot) {
            self.counters.servers_doubted += u64::from(replica.share.doubt());
        }
    }

    /// A read has its answer. It has asked others for this many keys that a doubted server missed.
    pub(crate) fn learn_of_doubted(&mut self, slot: Slot, asked: u32, found: u32) {
        self.counters.misses_rescued += u64::from(found);
        if let Some(replica) = self.of(slot) {
            self.counters.servers_trusted += u64::from(replica.share.learn(asked, found));
        }
    }

    // ── journals ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// The server lacks a write to this key, or may, or may still carry one out: it is not read until it has forgotten the key.
    pub(crate) fn miss(&mut self, slot: Slot, key: WireKey<'_>, servers: &mut Servers) {
        let Self { by_slot, config, counters, .. } = self;
        let replica = by_slot.get_mut(slot.index()).and_then(Option::as_mut);
        let Some(replica) = replica.filter(|_| !config.is_without(Mutation::Journal)) else { return };
        let is_stale = replica.share.mark_stale();
        counters.journal_keys += 1;
        let bounds = Bounds { keys: config.journal_keys_max, bytes: config.journal_bytes_max };
        let overflows = replica.journal.miss(Missed::of(key), bounds);
        counters.journal_overflows += u64::from(overflows);
        servers.keep_stale(slot, true);
        if is_stale {
            servers.note_change(slot, ServerChange::Stale);
        }
        if overflows {
            servers.note_change(slot, ServerChange::FlushWanted);
        }
    }

    /// Once per turn: makes servers forget what they missed.
    pub(crate) fn work(&mut self, servers: &mut Servers, now: Instant) {
        let mut next = 0;
        while let Some(slot) = servers.next_busy(next) {
            if self.of(slot).is_some_and(|replica| replica.share.is_stale())
                && servers.takes_repair_messages(slot)
            {
                self.work_on(slot, servers, now);
            }
            next = slot.index() + 1;
        }
    }

    #[cold]
    fn work_on(&mut self, slot: Slot, servers: &mut Servers, now: Instant) {
        let Some(replica) = &mut self.by_slot[slot.index()] else { return };
        while let Some(message) = replica.journal.next(now) {
            match message {
                RepairMessage::Delete(missed) => {
                    let (message, expected) = invalidation(missed.wire());
                    servers.send_own(slot, (Purpose::Delete, expected), now, |backend| {
                        write_message(message, expected, backend);
                    });
                    self.counters.journal_deletes += 1;
                }
                RepairMessage::Flush => {
                    servers.send_own(slot, (Purpose::Flush, Expected::Flush), now, |backend| {
                        backend.message().extend_from_slice(b"flush_all\r\n");
                    });
                    self.counters.journal_flushes += 1;
                }
            }
        }
    }

    /// When there is something to be sent to any of them.
    pub(crate) fn due(&self, servers: &Servers) -> Option<Instant> {
        let (mut earliest, mut next) = (None, 0);
        // Who is stale is busy.
        while let Some(slot) = servers.next_busy(next) {
            if let Some(replica) = self.of(slot)
                && replica.share.is_stale()
                && servers.takes_repair_messages(slot)
            {
                earliest = sooner(earliest, replica.journal.due());
            }
            next = slot.index() + 1;
        }
        earliest
    }

    /// A server answered what nobody but the proxy itself had asked.
    pub(crate) fn repair_replied(
        &mut self,
        slot: Slot,
        (purpose, reply): (Purpose, Reply),
        servers: &mut Servers,
        now: Instant,
    ) {
        let Self { by_slot, config, counters, .. } = self;
        let Some(replica) = by_slot.get_mut(slot.index()).and_then(Option::as_mut) else { return };
        let mut change = None;
        match (purpose, reply.status.is_error()) {
            (Purpose::Delete, true) if reply.status == Status::ServerError => {
                counters.journal_deletes_refused += 1;
                let pauses = (config.reconnect_delay_min_ns, config.reconnect_delay_max_ns);
                replica.journal.refuse(now, pauses);
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
            (Purpose::Request | Purpose::Barrier | Purpose::Step | Purpose::Mark, _) => return,
        }
        if let Some(change) = change {
            servers.note_change(slot, change);
        }
        if replica.freshen_if_done() {
            servers.keep_stale(slot, false);
            servers.note_change(slot, ServerChange::Fresh);
        }
    }

    /// A connection is gone that had `deletes` of ours, or a flush, on it, and perhaps writes that were not answered.
    pub(crate) fn lose_messages(
        &mut self,
        slot: Slot,
        (lost, ending): (LostMessages, Ending),
        servers: &mut Servers,
        now: Instant,
    ) {
        let Self { by_slot, config, counters, .. } = self;
        let Some(replica) = by_slot.get_mut(slot.index()).and_then(Option::as_mut) else { return };
        replica.journal.lose(lost.deletes(), lost.has_flush());
        if lost.has_writes() && ending == Ending::Otherwise && replica.share.is_stale() {
            counters.server_quarantines += 1;
            replica.journal.quarantine(now.plus(config.quarantine_ns));
            servers.note_change(slot, ServerChange::Quarantined);
        }
    }
}
