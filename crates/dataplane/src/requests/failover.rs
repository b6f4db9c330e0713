//! Reads whose server is lost before it answered, asked of another replica.
//!
//! Where keys have several servers, a connection that is closed, refused, or given up because of garbage does not fail the reads on it:
//! each is asked of its key's next replica that may be read, as if it had come now, and keeps its deadline. So is a read that has used up
//! half of its time at a server that says nothing, once (`backend/late_reads.rs`). No request asks a server a second time that it has
//! left or lost, so it ends. Parts of a multi-get are asked again key by key; what was answered stays.
//!
//! Only what changes nothing is asked twice: `get`, `gets`, and `mg` without `T`, `N`, `R` and flags that are not known. As in
//! `again.rs`, a session that has sent a change behind its read is not asked for again, because it would read what it did later; nor is
//! one that another table sent on its way.

use crate::{
    Dataplane,
    requests::degrade::Degrades,
    requests::service::Service,
    servers::backend::{NewPart, Part, RequestKey},
    wire::key::{Echo, write_meta},
    wire::names::Names,
};
use weir_protocol::{Expected, Meta, MetaVerb, RetrievalVerb, Status};
use weir_routing::REPLICAS_MAX;
use weir_timing::Instant;

/// What it takes to ask for a read again.
#[derive(Debug)]
pub(crate) struct Reread {
    /// How many changes the session had sent when this was sent.
    changes_before: u64,
    /// The table by which it was sent.
    generation: u64,
    message: Message,
    /// Servers that were lost with it.
    #[expect(
        clippy::box_collection,
        reason = "it is rarely there, and every request in service has room for it"
    )]
    tried: Option<Box<Vec<usize>>>,
    /// A doubted server that has missed the key of an `mg`.
    missed_by: Option<usize>,
}

/// What the server was asked, but for the keys that its backend knows.
#[derive(Debug)]
enum Message {
    Get,
    Gets,
    Meta(Box<MetaMessage>),
}

#[derive(Debug)]
struct MetaMessage {
    /// The key by which it is placed.
    name: Box<[u8]>,
    bytes: Vec<u8>,
    echo: Echo,
    /// The reply shows the item's token.
    shows_token: bool,
}

impl Reread {
    /// Whether an answer to an `mg` is to be looked at, which this server has given.
    fn concerns(&self, is_doubted: bool) -> bool {
        is_doubted && matches!(self.message, Message::Meta(_)) || self.missed_by.is_some()
    }
}

impl Dataplane {
    /// A `get` or `gets` where keys have several servers.
    pub(crate) fn may_reread(&mut self, key: RequestKey, verb: RetrievalVerb) {
        let message = match verb {
            RetrievalVerb::Get => Message::Get,
            RetrievalVerb::Gets => Message::Gets,
            // They write.
            RetrievalVerb::Gat | RetrievalVerb::Gats => return,
        };
        self.remember(key, message);
    }

    /// The same for a meta command on the key that is placed by `name`.
    pub(crate) fn may_reread_meta(
        &mut self,
        key: RequestKey,
        meta: Meta<'_>,
        name: &[u8],
        expected: Expected,
    ) {
        if meta.verb != MetaVerb::Get || meta.may_change_items() {
            return;
        }
        let mut bytes = Vec::new();
        let echo = write_meta(meta, &mut bytes);
        if expected == Expected::MetaThenNoop {
            bytes.extend_from_slice(b"mn\r\n");
        }
        let shows_token = meta.flags().any(|word| word[0] == b'c');
        self.remember(
            key,
            Message::Meta(Box::new(MetaMessage { name: name.into(), bytes, echo, shows_token })),
        );
    }

    fn remember(&mut self, key: RequestKey, message: Message) {
        let service = &mut self.requests.services[key];
        let changes_before = self.base.clients[service.session].changes();
        service.reread = Some(Reread {
            changes_before,
            generation: self.base.fleet.generation(),
            message,
            tried: None,
            missed_by: None,
        });
    }

    /// A server is lost that had not answered this part, whose `keys` are written each after its length. Returns whether others are
    /// asked instead.
    #[cold]
    pub(crate) fn fail_over(
        &mut self,
        key: RequestKey,
        part: Part,
        server: usize,
        keys: &[u8],
        now: Instant,
    ) -> bool {
        let Some(mut reread) = self.requests.services[key].reread.take() else { return false };
        let is_asked = self.ask_another(&mut reread, (key, part), server, keys, now);
        self.requests.services[key].reread = Some(reread);
        if is_asked {
            self.base.meter.counters().reads_retried += 1;
            let backend = &mut self.base.fleet.servers[server];
            backend.errors += 1;
            backend.observe(self.base.fleet.config.timeout_ns);
        }
        is_asked
    }

    /// A server says nothing, and this read has used up half of its time there: it is asked of another, once. Returns whether it is.
    #[cold]
    pub(crate) fn move_late_read(
        &mut self,
        (key, part): (RequestKey, Part),
        server: usize,
        keys: &[u8],
        now: Instant,
    ) -> bool {
        let Some(mut reread) = self.requests.services[key].reread.take() else { return false };
        let is_asked = reread.tried.is_none() && {
            let is_asked = self.ask_another(&mut reread, (key, part), server, keys, now);
            if !is_asked {
                // It stays where it is, and may be asked of another if that one is lost.
                reread.tried = None;
            }
            is_asked
        };
        self.requests.services[key].reread = Some(reread);
        self.base.meter.counters().reads_moved += u64::from(is_asked);
        is_asked
    }

    fn ask_another(
        &mut self,
        reread: &mut Reread,
        (key, part): (RequestKey, Part),
        server: usize,
        keys: &[u8],
        now: Instant,
    ) -> bool {
        let is_asked = self.may_ask_elsewhere(&self.requests.services[key], reread, now) && {
            let tried = reread.tried.get_or_insert_default();
            tried.push(server);
            match &reread.message {
                Message::Meta(meta) => self.ask_meta_elsewhere(key, part, meta, tried, now),
                Message::Get => self.ask_elsewhere(key, part, b"get", (keys, tried), now),
                Message::Gets => self.ask_elsewhere(key, part, b"gets", (keys, tried), now),
            }
        };
        let service = &mut self.requests.services[key];
        // What was sent first is a part of the time at the servers.
        service.following |= is_asked && service.first_sent;
        is_asked
    }

    /// An `mg` was answered that may be asked for again. Returns whether there is another answer to wait for.
    #[cold]
    pub(crate) fn is_rescued(
        &mut self,
        key: RequestKey,
        (server, part): (usize, Part),
        status: Status,
        now: Instant,
    ) -> bool {
        let is_doubted = self.base.fleet.replicas.is_doubted(server);
        let is_miss = matches!(status, Status::MetaMiss | Status::MetaSilent);
        let concerns = self.requests.services[key].reread.as_ref().is_some_and(|it| it.concerns(is_doubted));
        concerns && self.rescue_meta(key, (server, part), is_miss, now)
    }

    /// An `mg` was answered at a doubted server, or by another that was asked in its place. Returns whether there is another answer to
    /// wait for: what a doubted server misses is asked of who is doubted less.
    fn rescue_meta(
        &mut self,
        key: RequestKey,
        (server, part): (usize, Part),
        is_miss: bool,
        now: Instant,
    ) -> bool {
        let Some(mut reread) = self.requests.services[key].reread.take() else { return false };
        let Message::Meta(meta) = &reread.message else { return false };
        let mut is_asked = false;
        if let Some(doubted) = reread.missed_by {
            self.base.fleet.replicas.learn_of_doubted(doubted, 1, u32::from(!is_miss));
            if !is_miss && self.base.fleet.config.puts_back() {
                self.put_back_missed(&meta.name, now);
            }
        } else if is_miss
            && self.base.fleet.replicas.is_doubted(server)
            && self.may_ask_elsewhere(&self.requests.services[key], &reread, now)
            && (!meta.shows_token || self.base.fleet.config.puts_back())
        {
            let tried = reread.tried.get_or_insert_default();
            let mut replicas = [0; REPLICAS_MAX];
            let count = self.base.fleet.routes.replicas_of(&meta.name, &mut replicas);
            let next = self.base.fleet.readers().next_for_miss(&replicas[..count], server);
            tried.extend(replicas[..count].iter().map(|&it| usize::from(it)).filter(|it| Some(*it) != next));
            is_asked = next.is_some() && self.ask_meta_elsewhere(key, part, meta, tried, now);
            if is_asked {
                reread.missed_by = Some(server);
                let service = &mut self.requests.services[key];
                service.outstanding += 1;
                service.following = true;
                self.base.meter.counters().keys_asked_again += 1;
            }
        }
        self.requests.services[key].reread = Some(reread);
        is_asked
    }

    fn may_ask_elsewhere(&self, service: &Service, reread: &Reread, now: Instant) -> bool {
        let session = &self.base.clients[service.session];
        !service.error
            && !session.is_gone()
            && session.changes() == reread.changes_before
            && self.base.fleet.generation() == reread.generation
            && service.begun().deadline(self.base.fleet.config.timeout_ns, false) > now
    }

    fn ask_meta_elsewhere(
        &mut self,
        key: RequestKey,
        part: Part,
        meta: &MetaMessage,
        tried: &[usize],
        now: Instant,
    ) -> bool {
        let Some(server) = self.next_reader(&meta.name, tried) else { return false };
        let backend = &mut self.base.fleet.servers[server];
        let created = self.requests.services[key].begun();
        let (expected, decides, index) = (part.expected, part.decides, part.index);
        let part = NewPart { request: Some(key), expected, decides, index, created };
        backend.begin_message(part, &self.base.fleet.config, now);
        backend.message().extend_from_slice(&meta.bytes);
        backend.expect_echo(&meta.echo);
        backend.finish_message();
        true
    }

    fn ask_elsewhere(
        &mut self,
        key: RequestKey,
        part: Part,
        verb: &[u8],
        (keys, tried): (&[u8], &[usize]),
        now: Instant,
    ) -> bool {
        let readers: Vec<_> = Names(keys).map(|name| self.next_reader(name, tried)).collect();
        let service = &mut self.requests.services[key];
        let lacks_one = readers.contains(&None);
        if readers.iter().all(Option::is_none) || lacks_one && service.degrades != Degrades::Always {
            return false;
        }
        // The numbers of the parts that take the place of this one: none but where a request has several.
        let first = service.gather.as_mut().map(|gather| gather.reassign(part.index, &readers));
        let mut servers = Vec::new();
        for server in readers.iter().flatten() {
            if !servers.contains(server) {
                servers.push(*server);
            }
        }
        service.outstanding += u32::try_from(servers.len()).expect("a key has few replicas") - 1;
        let created = service.begun();
        for (index, &server) in (first.unwrap_or(part.index)..).zip(&servers) {
            let (request, decides) = (Some(key), part.decides);
            let part = NewPart { request, expected: Expected::Retrieval, decides, index, created };
            let backend = &mut self.base.fleet.servers[server];
            backend.begin_message(part, &self.base.fleet.config, now);
            backend.message().extend_from_slice(verb);
            let mine = Names(keys).zip(&readers).filter(|(_, reader)| **reader == Some(server));
            mine.for_each(|(name, _)| backend.push_key(name));
            backend.message().extend_from_slice(b"\r\n");
            backend.finish_message();
        }
        if lacks_one {
            self.degrade_part(key, part.index);
        }
        true
    }

    /// The first replica that may be read, but for those that were tried.
    fn next_reader(&self, name: &[u8], tried: &[usize]) -> Option<usize> {
        let mut replicas = [0; REPLICAS_MAX];
        let count = self.base.fleet.routes.replicas_of(name, &mut replicas);
        let mut left = [0; REPLICAS_MAX];
        let mut len = 0;
        for &replica in replicas[..count].iter().filter(|&&replica| !tried.contains(&usize::from(replica))) {
            left[len] = replica;
            len += 1;
        }
        if len == 0 { None } else { self.base.fleet.readers().first(&left[..len]).ok() }
    }
}
