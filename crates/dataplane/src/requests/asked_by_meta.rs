//! Gets that are put to their server as a meta command, which says more of the item: how long it lives, and whether it has changed.
//!
//! ```text
//!   get a, whose value is to be kept   ──mg a k c f t v─────▶ VA 3 ka c7 f0 t30 …     VALUE a 0 3 … ──▶ client
//!   get a, whose value is kept         ──mg a k C7 c f t v──▶ HD ka c7 f0 t29         what is kept ───▶ client
//!                                                           ▶ VA 3 ka c8 f0 t30 …     VALUE a 0 3 … ──▶ client
//! ```
//!
//! The client reads what a `get` would have brought it, to the byte. With `C` memcached leaves the value out if the item's token is this
//! one, from 1.6.40 on (protocol.txt, "Meta Get"). Before, it reads the flag and sends the value, which is as right.
//!
//! memcached knows `mg` from 1.6.0 on, and servers name their versions when they are connected to. One that refuses it all the same is asked
//! by `get`, at once, and by no `mg` on that connection. Keys with several servers are never asked for so: a token counts at one server
//! only, and what is asked for again elsewhere is a `get`.
//!
//! Who asks first by `mg` for an item that is marked as stale is to fetch it anew (flag `W`). No client has asked for that here, so the item
//! is marked again, unless it has changed, and the next one that asks is the first.

use crate::{
    Fault,
    replication::item::{Item, parse_token},
    requests::Requests,
    requests::ask_once::{Asked, name_of},
    requests::base::Base,
    requests::deciding::{Deciding, END},
    requests::near_cache::{Said, Value},
    requests::plan::Asker,
    requests::retrieval::send_plan,
    requests::send::Message,
    requests::service::Kind,
    servers::backend::Purpose,
    servers::message::write_message,
    wire::hash::hash,
    wire::ids::{RequestKey, Slot},
};
use std::sync::Arc;
use weir_protocol::{Expected, Meta, MetaVerb, Request, Retrieval, RetrievalVerb};
use weir_timing::Instant;

/// How a get is to be put to its server that no value was an answer to.
#[derive(Debug)]
pub(super) enum Wish {
    AsGet,
    /// The value is to be kept.
    ToKeep,
    /// This value is the answer, if it has not changed.
    ToCheck(Arc<Value>),
}

/// What a server has answered.
#[derive(Debug, PartialEq, Eq)]
enum Found<'a> {
    Item(Item<'a>),
    /// The item has not changed.
    Same,
    Nothing,
    /// It is no answer to the question.
    Nonsense,
}

impl Requests {
    /// Asks the server of a get by a meta command, if that is wished and the server knows how to answer. Returns whether it is asked.
    pub(super) fn ask_by_meta(
        &mut self,
        base: &mut Base,
        (key, retrieval): (RequestKey, &Retrieval<'_>),
        (wish, server): (Wish, Slot),
        now: Instant,
    ) -> bool {
        let kept = match wish {
            Wish::AsGet => return false,
            Wish::ToKeep => None,
            Wish::ToCheck(value) => Some(value),
        };
        let Some(name) = name_of(retrieval).filter(|name| may_ask_by_meta(base, server, name)) else {
            return false;
        };
        // Of one that nobody may wait for nothing is known that would be needed.
        if self.services[key].kind != Kind::Leads {
            return false;
        }
        let flags =
            kept.as_ref().map_or_else(|| "k c f t v".into(), |value| format!("k C{} c f t v", value.token()));
        let meta = Meta { verb: MetaVerb::Get, key: name, flags: flags.as_bytes(), block: b"" };
        self.ask_once.note_asked(key, Asked::ByMeta(kept));
        base.meter.counters().near_asked += 1;
        let message = Message { server, expected: Expected::Meta, decides: true };
        self.send(base, (key, message), now, |backend| {
            write_message(Request::Meta(meta), Expected::Meta, backend);
        });
        if self.services[key].outstanding > 0 {
            // It passes no get of its key, whosever that is: those that wait for this one may have sent it before.
            _ = base.fleet.servers[server].let_ahead(name, |_| true);
        }
        self.finish_if_nothing_is_outstanding(base, key, now);
        true
    }

    /// A get that was asked for so has come to its end; `kept` is the value that may have changed.
    #[cold]
    pub(super) fn finish_by_meta(
        &mut self,
        base: &mut Base,
        key: RequestKey,
        (reply, kept): (Option<Deciding<'_>>, Option<Arc<Value>>),
        now: Instant,
    ) {
        let is_refused = self.services[key].verdict.is_refused();
        let found = match reply {
            Some(reply) => read(reply.bytes, kept.as_deref()),
            None if is_refused => Found::Nonsense,
            // It has failed.
            None => return self.finish_all(base, key, (None, None), now),
        };
        let counters = base.meter.counters();
        counters.near_outdated += u64::from(kept.as_deref().is_some_and(|kept| has_changed(&found, kept)));
        match (found, &kept) {
            (Found::Item(item), _) => {
                let reply = item.to_get_reply(self.ask_once.key_of(key));
                if item.has_won() && self.ask_once.is_by_table(key, base.fleet.generation()) {
                    mark_again(base, self.ask_once.key_of(key), &item, now);
                }
                self.finish_all(base, key, (whole(&reply), Some(Said::of(&item))), now);
            }
            (Found::Same, Some(kept)) if self.near_cache.may_compare(kept) => {
                counters.near_same += 1;
                self.finish_all(base, key, (whole(kept.reply()), None), now);
            }
            (Found::Nothing, _) => {
                self.near_cache.note_missing(hash(self.ask_once.key_of(key)), now);
                self.finish_all(base, key, (whole(END), None), now);
            }
            // The question has waited for another connection than that on which the token had come.
            (Found::Same, _) => self.ask_as_get(base, key, Fault::Closed, now),
            (Found::Nonsense, _) => {
                // Since a reload another server may have the key.
                if self.ask_once.is_by_table(key, base.fleet.generation()) {
                    let server = base.fleet.routes.primary(self.ask_once.key_of(key));
                    base.fleet.servers.note_meta_refused(server);
                }
                self.ask_as_get(base, key, Fault::Protocol, now);
            }
        }
    }

    /// What the server of a get said to the meta command is no answer: it is asked by `get`. If that may not be, the get fails.
    fn ask_as_get(&mut self, base: &mut Base, key: RequestKey, fault: Fault, now: Instant) {
        let Self { services, planner, ask_once, .. } = self;
        let (service, name) = (&mut services[key], ask_once.key_of(key));
        let session = &base.clients[service.session];
        // What its client has sent behind it must not be seen by it.
        let may_ask = !session.is_gone()
            && session.changes() == service.changes.before
            && service.begun().deadline(base.fleet.config.timeout_ns, false) > now;
        if !may_ask {
            let server = base.fleet.servers.slots().name(base.fleet.routes.primary(name));
            // What the server has said itself stays.
            service.verdict.fail(fault, server);
            return self.finish_all(base, key, (None, None), now);
        }
        service.verdict.forgive();
        service.hits = 0;
        // What was asked first is a part of its time at the servers.
        service.begin_second_try();
        let retrieval = Retrieval::of(RetrievalVerb::Get, name, 1);
        let plan = planner.plan(&mut base.fleet, retrieval, Asker::from(session));
        send_plan(services, base, key, (plan, retrieval), now);
        self.finish_if_nothing_is_outstanding(base, key, now);
    }
}

const fn whole(bytes: &[u8]) -> Option<Deciding<'_>> {
    Some(Deciding { bytes, lacks_end: false })
}

/// Whether this server of a key knows how to answer a meta command, and is the only one of it.
pub(super) fn may_ask_by_meta(base: &Base, server: Slot, name: &[u8]) -> bool {
    base.fleet.servers.knows_meta(server) && !base.fleet.routes.replicates(name)
}

/// The item is marked as stale, and we have been made the one who is to fetch it anew.
#[cold]
fn mark_again(base: &mut Base, name: &[u8], item: &Item<'_>, now: Instant) {
    let server = base.fleet.routes.primary(name);
    base.fleet.servers.send_own(server, (Purpose::Mark, Expected::Meta), now, |backend| {
        let flags = format!(" I C{}\r\n", item.token());
        backend.message().extend_from_slice(&[b"md ", name, flags.as_bytes()].concat());
    });
}

/// What this reply says of an item of which `kept` may be the value.
fn read<'a>(reply: &'a [u8], kept: Option<&Value>) -> Found<'a> {
    match reply.get(..2) {
        Some(b"VA") => Item::parse(reply).map_or(Found::Nonsense, Found::Item),
        Some(b"EN") => Found::Nothing,
        Some(b"HD") if kept.is_some_and(|kept| token_of(reply) == Some(kept.token())) => Found::Same,
        _ => Found::Nonsense,
    }
}

/// Whether the item is not what it was when its value was kept. Before 1.6.40 its server sends it all the same.
fn has_changed(found: &Found<'_>, kept: &Value) -> bool {
    match found {
        Found::Item(item) => item.token() != kept.token(),
        Found::Nothing => true,
        Found::Same | Found::Nonsense => false,
    }
}

/// The token that stands in this line.
fn token_of(line: &[u8]) -> Option<u64> {
    let mut words = line.trim_ascii_end().split(|byte| *byte == b' ');
    words.find_map(|word| parse_token(word.strip_prefix(b"c")?))
}
