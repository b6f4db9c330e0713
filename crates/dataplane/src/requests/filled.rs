//! What becomes of gets that miss where others may fill their key (`fill_once.rs`).

use crate::{
    Mutation,
    replication::leases::UNIT_NS,
    requests::Requests,
    requests::answer::Answer,
    requests::base::Base,
    requests::deciding::{Deciding, END},
    requests::degrade::Degrades,
    requests::fill_once::{Fate, FillWait, Missed, Waiting},
    requests::plan::{Asker, Plan},
    requests::retrieval::send_plan,
    servers::deadlines::sooner,
    wire::ids::RequestKey,
};
use weir_protocol::{Retrieval, RetrievalVerb};
use weir_timing::Instant;

impl Requests {
    /// A get has missed. Returns whether it goes on all the same: it waits, or is asked again.
    pub(super) fn goes_on_after_miss(
        &mut self,
        base: &mut Base,
        (mut missed, name): (Missed, &[u8]),
        now: Instant,
    ) -> bool {
        let is_first = !missed.wait.is_tried();
        match self.judge(base, &mut missed, now) {
            Fate::Wait => {
                base.meter.counters().fill_waits += u64::from(is_first);
                self.services[missed.request].outstanding = 1;
                self.fill_once.wait(Waiting { missed, name: name.into() }, now);
                true
            }
            Fate::AskAgain => {
                self.ask_by_itself(base, (missed.request, name), missed.wait, now);
                true
            }
            Fate::Miss | Fate::Fill | Fate::NoRoom | Fate::Late => false,
        }
    }

    /// When there is something to do at the latest, here or below.
    #[inline]
    pub(crate) fn due(&self, base: &Base) -> Option<Instant> {
        sooner(base.due(), self.fill_once.due())
    }

    /// Whether gets that wait for their keys to be filled are to be looked at.
    #[inline]
    pub(super) fn is_any_to_look_at(&self, now: Instant) -> bool {
        self.fill_once.due().is_some_and(|due| due <= now)
    }

    /// Looks at all gets that wait for their keys to be filled.
    #[cold]
    pub(super) fn look_at_waiting(&mut self, base: &mut Base, now: Instant) {
        for _ in 0..self.fill_once.begin_look(now) {
            let Some(Waiting { mut missed, name }) = self.fill_once.take_first() else { break };
            let fate = self.judge(base, &mut missed, now);
            if fate == Fate::Wait {
                self.fill_once.wait(Waiting { missed, name }, now);
                continue;
            }
            self.services[missed.request].outstanding = 0;
            match fate {
                Fate::AskAgain => self.ask_by_itself(base, (missed.request, &name), missed.wait, now),
                _ => self.finish(base, missed.request, Some(Deciding { bytes: END, lacks_end: false }), now),
            }
        }
    }

    fn judge(&mut self, base: &mut Base, missed: &mut Missed, now: Instant) -> Fate {
        let service = &self.services[missed.request];
        let session = &base.clients[service.session];
        let deadline = service.begun().deadline(base.fleet.config.timeout_ns, false);
        // A change that waits for it is behind it, too.
        let has_changed = session.changes() != service.changes.before || session.claims.is_waiting();
        let may_ask = !has_changed || base.fleet.config.is_without(Mutation::FillPastChange);
        let fate = self.fill_once.judge(missed, (service.session, session), (deadline, may_ask), now);
        let counters = base.meter.counters();
        counters.fill_leases += u64::from(fate == Fate::Fill);
        counters.fill_waits_again += u64::from(fate == Fate::AskAgain);
        counters.fill_waits_late += u64::from(fate == Fate::Late);
        counters.fill_waits_full += u64::from(fate == Fate::NoRoom);
        fate
    }

    /// A get that has waited, for the reply to another or for its key to be filled, asks its server.
    pub(super) fn ask_by_itself(
        &mut self,
        base: &mut Base,
        (key, name): (RequestKey, &[u8]),
        wait: FillWait,
        now: Instant,
    ) {
        let service = &mut self.services[key];
        if wait.is_tried() {
            // What it has waited for is a part of its time at the servers.
            service.clock.begin_second_step();
            // Little of that may be left, and it has a miss.
            if !service.verdict.degrades().covers_all() {
                service.answer_failures_with(Degrades::AfterMiss, || Answer::Fixed(END));
            }
        }
        let retrieval = Retrieval::of(RetrievalVerb::Get, name, 1);
        let asker = Asker::from(&base.clients[service.session]);
        let plan = self.planner.plan(&mut base.fleet, retrieval, asker);
        if self.fill_once.is_on() && matches!(plan, Plan::One(Ok(_))) {
            // A write that is known to have ended did so before: not in the same unit.
            let sent = if wait.is_tried() { now.plus(UNIT_NS) } else { now };
            self.ask_once.remember(&mut self.services, (key, name), wait, sent);
        }
        send_plan(&mut self.services, base, key, (plan, retrieval), now);
        self.finish_if_nothing_is_outstanding(base, key, now);
    }
}
