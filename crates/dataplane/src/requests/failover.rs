//! Reads whose server is lost before it answered, asked of another replica.
//!
//! Where keys have several servers, a connection that is closed, refused, or given up because of garbage does not fail the reads on it.
//! Each is asked of its key's next replica that may be read, as if it had come now, and keeps its deadline. So is a read that has used up
//! half of its time at a server that says nothing, once (`deadlines.rs`). No request asks a server a second time that it has left or lost,
//! so it ends. Parts of a multi-get are asked again key by key; what was answered stays.
//!
//! Only what changes nothing is asked twice: `get`, `gets`, and `mg` without `T`, `N`, `R` and flags that are not known. As in
//! `second_step.rs`, a session that has sent a change behind its read is not asked for again, because it would read what it did later. Nor
//! is one that another table sent on its way.

use crate::{
    requests::base::Base,
    requests::outcome::degrade_part,
    requests::reread::{MetaQuestion, Question, Reread},
    requests::retrieval::ask_again,
    requests::service::Service,
    requests::services::Services,
    servers::backend::{NewPart, Part},
    wire::ids::{RequestKey, Slot},
    wire::names::Names,
};
use weir_protocol::{Expected, RetrievalVerb, Status};
use weir_routing::REPLICAS_MAX;
use weir_timing::Instant;

/// A part of a request at a server, with its keys, each after its length, where they are known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(super) key: RequestKey,
    pub(super) part: Part,
    pub(super) server: Slot,
    pub(super) keys: &'a [u8],
}

/// The request may be asked for again.
#[inline]
pub(crate) fn remember(service: &mut Service, base: &Base, message: Option<Question>) {
    let changes = base.clients[service.session].changes();
    service.reread = message.map(|message| Reread::new(message, changes, base.fleet.generation()));
}

/// A server is lost that had not answered this part. Returns whether others are asked instead.
#[cold]
pub(crate) fn fail_over(services: &mut Services, base: &mut Base, asked: Asked<'_>, now: Instant) -> bool {
    let Some(mut reread) = services[asked.key].reread.take() else { return false };
    let is_asked = ask_another(services, base, &mut reread, asked, now);
    services[asked.key].reread = Some(reread);
    if is_asked {
        base.meter.counters().reads_retried += 1;
        base.fleet.note_failed(asked.server);
    }
    is_asked
}

/// A server says nothing, and this read has used up half of its time there: it is asked of another, once. Returns whether it is.
#[cold]
pub(crate) fn move_late_read(
    services: &mut Services,
    base: &mut Base,
    asked: Asked<'_>,
    now: Instant,
) -> bool {
    let Some(mut reread) = services[asked.key].reread.take() else { return false };
    let is_asked = reread.tried.is_none() && {
        let is_asked = ask_another(services, base, &mut reread, asked, now);
        if !is_asked {
            // It stays where it is, and may be asked of another if that one is lost.
            reread.tried = None;
        }
        is_asked
    };
    services[asked.key].reread = Some(reread);
    base.meter.counters().reads_moved += u64::from(is_asked);
    is_asked
}

fn ask_another(
    services: &mut Services,
    base: &mut Base,
    reread: &mut Reread,
    asked: Asked<'_>,
    now: Instant,
) -> bool {
    let service = &mut services[asked.key];
    let is_asked = may_ask_elsewhere(service, base, reread, now) && {
        let tried = reread.tried.get_or_insert_default();
        tried.push(asked.server);
        match &reread.message {
            Question::Meta(meta) => ask_meta_elsewhere(service, base, (asked, meta, tried), now),
            Question::Get => ask_elsewhere(service, base, RetrievalVerb::Get, (asked, tried), now),
            Question::Gets => ask_elsewhere(service, base, RetrievalVerb::Gets, (asked, tried), now),
        }
    };
    // What was sent first is a part of the time at the servers.
    if is_asked {
        service.begin_second_try();
    }
    is_asked
}

/// What an answer to an `mg` leads to.
#[derive(Debug, Default)]
pub(crate) struct Rescue {
    /// There is another answer to wait for.
    pub(super) is_asked: bool,
    /// This key is to be put back where it was missing.
    pub(super) put_back: Option<Box<[u8]>>,
}

/// An `mg` was answered that may be asked for again: what a doubted server misses is asked of who is doubted less.
#[cold]
pub(crate) fn rescue_meta(
    services: &mut Services,
    base: &mut Base,
    asked: Asked<'_>,
    status: Status,
    now: Instant,
) -> Rescue {
    let service = &mut services[asked.key];
    let is_doubted = base.fleet.replicas.is_doubted(asked.server);
    let is_miss = matches!(status, Status::MetaMiss | Status::MetaSilent);
    let Some(mut reread) = service.reread.take_if(|it| it.concerns(is_doubted)) else {
        return Rescue::default();
    };
    let Question::Meta(meta) = &reread.message else { return Rescue::default() };
    let mut rescue = Rescue::default();
    if let Some(doubted) = reread.missed_by {
        base.fleet.replicas.learn_of_doubted(doubted, 1, u32::from(!is_miss));
        if !is_miss && base.fleet.config.puts_back() {
            rescue.put_back = Some(meta.name.clone());
        }
    } else if is_miss
        && is_doubted
        && may_ask_elsewhere(service, base, &reread, now)
        && (!meta.shows_token || base.fleet.config.puts_back())
    {
        let tried = reread.tried.get_or_insert_default();
        let mut replicas = [Slot::FIRST; REPLICAS_MAX];
        let count = base.fleet.routes.replicas_of(&meta.name, &mut replicas);
        let next = base.fleet.readers().next_for_miss(&replicas[..count], asked.server);
        tried.extend(replicas[..count].iter().copied().filter(|it| Some(*it) != next));
        rescue.is_asked = next.is_some() && ask_meta_elsewhere(service, base, (asked, meta, tried), now);
        if rescue.is_asked {
            reread.missed_by = Some(asked.server);
            service.outstanding += 1;
            service.clock.begin_second_step();
            base.meter.counters().keys_asked_again += 1;
        }
    }
    service.reread = Some(reread);
    rescue
}

fn may_ask_elsewhere(service: &Service, base: &Base, reread: &Reread, now: Instant) -> bool {
    let session = &base.clients[service.session];
    !service.verdict.is_error()
        && !session.is_gone()
        && reread.is_current(session.changes(), base.fleet.generation())
        && service.begun().deadline(base.fleet.config.timeout_ns, false) > now
}

fn ask_meta_elsewhere(
    service: &Service,
    base: &mut Base,
    (asked, meta, tried): (Asked<'_>, &MetaQuestion, &[Slot]),
    now: Instant,
) -> bool {
    let Some(server) = next_reader(base, &meta.name, tried) else { return false };
    let (expected, decides, index) = (asked.part.expected(), asked.part.decides(), asked.part.index());
    let part = NewPart::of(asked.key, expected, service.begun()).deciding(decides).at(index);
    let backend = &mut base.fleet.servers[server];
    backend.begin_message(part, &base.fleet.config, now);
    backend.message().extend_from_slice(&meta.bytes);
    backend.expect_echo(&meta.echo);
    backend.end_message();
    true
}

fn ask_elsewhere(
    service: &mut Service,
    base: &mut Base,
    verb: RetrievalVerb,
    (asked, tried): (Asked<'_>, &[Slot]),
    now: Instant,
) -> bool {
    let Asked { key, part, keys, .. } = asked;
    let readers: Vec<_> = Names(keys).map(|name| next_reader(base, name, tried)).collect();
    let lacks_one = readers.contains(&None);
    if readers.iter().all(Option::is_none) || lacks_one && !service.verdict.degrades().covers_all() {
        return false;
    }
    // The numbers of the parts that take the place of this one: none but where a request has several.
    let first = service.gather.as_mut().map(|gather| gather.reassign(part.index(), &readers));
    let mut servers = Vec::new();
    for server in readers.iter().flatten() {
        if !servers.contains(server) {
            servers.push(*server);
        }
    }
    service.outstanding += u32::try_from(servers.len()).expect("a key has few replicas") - 1;
    let created = service.begun();
    for (index, &server) in (first.unwrap_or(part.index())..).zip(&servers) {
        let part = NewPart::of(key, Expected::Retrieval, created).deciding(part.decides()).at(index);
        let mine = Names(keys).zip(&readers).filter(|(_, reader)| **reader == Some(server));
        let count = readers.iter().filter(|reader| **reader == Some(server)).count();
        ask_again(base, server, (part, verb), (mine.map(|(name, _)| name), count), now);
    }
    if lacks_one {
        degrade_part(service, base, part.index());
    }
    true
}

/// The first replica that may be read, but for those that were tried.
fn next_reader(base: &Base, name: &[u8], tried: &[Slot]) -> Option<Slot> {
    let mut replicas = [Slot::FIRST; REPLICAS_MAX];
    let count = base.fleet.routes.replicas_of(name, &mut replicas);
    let mut left = [Slot::FIRST; REPLICAS_MAX];
    let mut len = 0;
    for &replica in replicas[..count].iter().filter(|&&replica| !tried.contains(&replica)) {
        left[len] = replica;
        len += 1;
    }
    if len == 0 { None } else { base.fleet.readers().first(&left[..len]).ok() }
}
