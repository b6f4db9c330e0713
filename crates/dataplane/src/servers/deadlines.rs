//! When the parts of a pipeline are late: each has a deadline, and the head's moves with the progress of its reply.
//!
//! [`Deadlines`] owns which parts were checked, when to check again, and how a long reply or request moves. It learns of parts that come
//! and leave, and of bytes that moved; it answers what is late, and when to look again. It changes who waits for a part, and nothing else.
//!
//! # Reads whose server says nothing, while there is time to ask another one
//!
//! A connection on which nothing has come for half of the timeout, though something waits for it, may have come to its end. A read that
//! has used up half of its time there is asked of the next replica, once (`failover.rs`). Its part stays where it is, so that the reply
//! is thrown away if it comes, and its deadline still counts as one that was missed. A server that answers anything, however late, keeps
//! its reads: it is only slow, and another one would have to do the same work again.

use crate::{
    servers::part::{GivenUp, Part},
    servers::pipeline::Pipeline,
    wire::ids::RequestKey,
};
use std::collections::VecDeque;
use weir_protocol::Expected;
use weir_timing::Instant;

/// No deadline.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// A read that may be asked of another server: where it stands, which request it belongs to, and its keys, each after its length.
pub(crate) type LateRead = (usize, RequestKey, Part, Box<[u8]>);

/// The deadlines of one pipeline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadlines {
    /// Parts before this one were checked for their deadline (except the first of all, whose reply may be on its way).
    unexpired: usize,
    /// Parts before this one were looked at for reads that may be asked elsewhere.
    looked_at: usize,
    /// Parts that stand behind one with a later deadline are late at this moment at the earliest. `None`: all stand in the order of their
    /// deadlines.
    overtaking: Option<Instant>,
    /// The latest deadline of any part.
    latest: Instant,
    /// No part is late before this.
    soonest: Instant,
    /// Since when the head goes on, and how many bytes of it have moved since then.
    progress: (Instant, usize),
}

/// What deadlines depend on besides the parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    timeout_ns: u64,
    has_copies: bool,
    has_begun: bool,
    step_due: Option<Instant>,
}

impl Terms {
    /// `has_copies`: the server's keys have other servers, too. `has_begun`: some of the head's reply has come. `step_due`: when to look whether
    /// the replies are in step (`in_step.rs`).
    #[inline]
    pub(super) const fn new(
        timeout_ns: u64,
        has_copies: bool,
        has_begun: bool,
        step_due: Option<Instant>,
    ) -> Self {
        Self { timeout_ns, has_copies, has_begun, step_due }
    }
}

impl Deadlines {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            unexpired: 0,
            looked_at: 0,
            overtaking: None,
            latest: Instant::ZERO,
            soonest: NEVER,
            progress: (now, 0),
        }
    }

    // ── notes ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A part comes with this deadline. `timeout_ns`: of which half must be used up before another server may be asked, if there is one.
    #[inline(always)]
    pub(super) fn add(&mut self, deadline: Instant, is_awaited: bool, timeout_ns: Option<u64>) {
        if is_awaited && deadline < self.latest {
            self.overtaking = sooner(self.overtaking, Some(deadline));
        }
        self.latest = self.latest.max(deadline);
        let first = timeout_ns.map_or(deadline, |timeout_ns| half_time(deadline, timeout_ns));
        self.soonest = self.soonest.min(first);
    }

    /// Whether a part may be put in this place, with others behind it: all from there on are still looked at.
    pub(super) fn may_insert(&self, place: usize) -> bool {
        // The head's is looked at by itself.
        self.unexpired <= place.max(1) && self.looked_at <= place
    }

    /// The part in this place was put there. Those behind it may be late before it.
    pub(super) fn note_inserted(&mut self, parts: &VecDeque<Part>, place: usize) {
        let own = parts[place].deadline();
        let behind = parts.range(place + 1..).filter(|part| part.is_awaited() && part.deadline() < own);
        self.overtaking = sooner(self.overtaking, behind.map(Part::deadline).min());
    }

    /// This many bytes came from the server, or went there; `goes_on` if the head was under way before them.
    #[inline]
    pub(super) fn note_progress(&mut self, count: usize, goes_on: bool, progress_min: usize, now: Instant) {
        let (since, moved) = self.progress;
        let moved = moved.saturating_add(count);
        self.progress = if goes_on && moved < progress_min { (since, moved) } else { (now, 0) };
    }

    /// The first parts have left.
    #[inline]
    pub(super) const fn note_left(&mut self, count: usize) {
        self.unexpired = self.unexpired.saturating_sub(count);
        self.looked_at = self.looked_at.saturating_sub(count);
    }

    /// All have.
    pub(super) const fn clear(&mut self) {
        (self.unexpired, self.looked_at) = (0, 0);
        self.overtaking = None;
    }

    // ── time is up ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Gives up every part whose time is up, and hands it to `given_up`. [`Deadlines::reckon`] must follow.
    pub(super) fn expire(
        &mut self,
        pipeline: &mut Pipeline,
        terms: Terms,
        now: Instant,
        mut given_up: impl FnMut(GivenUp, Part),
    ) {
        let head_deadline = self.head_deadline(pipeline, terms);
        let parts = pipeline.parts_mut();
        let mut give_up = |part: &mut Part| {
            if let Some(what) = part.give_up() {
                given_up(what, *part);
            }
        };
        if let Some(head) =
            parts.front_mut().filter(|_| head_deadline.is_some_and(|deadline| deadline <= now))
        {
            give_up(head);
        }
        self.unexpired = self.unexpired.max(1);
        while let Some(part) = parts.get_mut(self.unexpired).filter(|part| part.deadline() <= now) {
            give_up(part);
            self.unexpired += 1;
        }
        if self.overtaking.is_some_and(|earliest| earliest <= now) {
            let mut latest = Instant::ZERO;
            self.overtaking = None;
            for part in parts.iter_mut().skip(1) {
                if part.deadline() <= now {
                    give_up(part);
                } else if part.request().is_some() && part.deadline() < latest {
                    self.overtaking = sooner(self.overtaking, Some(part.deadline()));
                }
                latest = latest.max(part.deadline());
            }
        }
    }

    /// When something is late next, or may be asked elsewhere.
    pub(super) fn reckon(&mut self, pipeline: &Pipeline, terms: Terms) {
        let parts = pipeline.parts();
        let waiting = [parts.front().filter(|part| part.is_awaited()), self.next_unexpired(parts)];
        let waiting = waiting.into_iter().flatten().map(Part::deadline).chain(self.overtaking);
        let late = waiting.chain(terms.step_due).min();
        self.soonest = sooner(late, self.reads_late_at(pipeline, terms)).unwrap_or(NEVER);
    }

    /// Whether something may be late.
    #[inline]
    pub(super) fn may_be_late(&self, now: Instant) -> bool {
        self.soonest <= now
    }

    /// Whether a reply that is coming has made progress within the timeout.
    pub(super) fn has_progressed(&self, timeout_ns: u64, now: Instant) -> bool {
        now < self.progress.0.plus(timeout_ns)
    }

    /// When the first part that still has a request will be late, or a read may be asked elsewhere.
    pub(super) fn next(&self, pipeline: &Pipeline, terms: Terms) -> Option<Instant> {
        // What comes next may have been given up already, behind one that has more time; nothing that waits is late before `soonest`.
        let next = self.next_unexpired(pipeline.parts()).map(|part| part.deadline().max(self.soonest));
        let next = sooner(next.filter(|next| *next != NEVER), terms.step_due);
        let late = sooner(sooner(self.head_deadline(pipeline, terms), next), self.overtaking);
        // `soonest` was reckoned with the timeout that held then.
        sooner(late, self.reads_late_at(pipeline, terms).map(|at| at.max(self.soonest)))
    }

    /// The first part behind the head that was not checked for its deadline.
    fn next_unexpired<'a>(&self, parts: &'a VecDeque<Part>) -> Option<&'a Part> {
        parts.get(self.unexpired.max(1))
    }

    /// The head's deadline moves with the progress of its reply: a long reply, and a long request, must go on, no more.
    fn head_deadline(&self, pipeline: &Pipeline, terms: Terms) -> Option<Instant> {
        let head = pipeline.parts().front().filter(|part| part.is_awaited())?;
        Some(if terms.has_begun || pipeline.is_head_leaving() {
            head.deadline().max(self.progress.0.plus(terms.timeout_ns))
        } else {
            head.deadline()
        })
    }

    // ── half of it is ──────────────────────────────────────────────────────────────────────────────────────────────────────

    /// When the first read that was not looked at may be asked elsewhere, if the server says nothing until then.
    pub(super) fn reads_late_at(&self, pipeline: &Pipeline, terms: Terms) -> Option<Instant> {
        if !terms.has_copies {
            return None;
        }
        let part = pipeline.parts().get(self.looked_at)?;
        let silent = self.progress.0.plus(terms.timeout_ns / 2);
        Some(half_time(part.deadline(), terms.timeout_ns).max(silent))
    }

    /// The reads that have used up half of their time, if the server has said nothing for as long. They are looked at no more.
    #[cold]
    pub(super) fn late_reads(&mut self, pipeline: &Pipeline, timeout_ns: u64, now: Instant) -> Vec<LateRead> {
        let mut late = Vec::new();
        for (place, (part, keys)) in pipeline.parts_with_keys().enumerate().skip(self.looked_at) {
            if half_time(part.deadline(), timeout_ns) > now {
                break;
            }
            self.looked_at = place + 1;
            let reads = part.expected() == Expected::Retrieval || part.expected().is_meta();
            if let Some(request) = part.request().filter(|_| reads) {
                late.push((place, request, *part, keys.into()));
            }
        }
        late
    }
}

/// When half of the time before a deadline is used up.
#[inline]
fn half_time(deadline: Instant, timeout_ns: u64) -> Instant {
    Instant::from_nanos(deadline.as_nanos().saturating_sub(timeout_ns / 2))
}

/// The earlier of two times, of which there may be none.
#[inline]
pub(crate) fn sooner(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::{
        begun::Begun,
        part::{NewPart, Purpose},
    };

    const TIMEOUT_NS: u64 = 100;
    const ALONE: Terms = Terms::new(TIMEOUT_NS, false, false, None);
    const COPIED: Terms = Terms::new(TIMEOUT_NS, true, false, None);

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// Gets with these deadlines, of requests 0, 1, 2 …, all of which the server has.
    fn waiting(deadlines: &[u64]) -> (Pipeline, Deadlines) {
        let (mut pipeline, mut times) = (Pipeline::default(), Deadlines::new(at(0)));
        for (request, &deadline) in deadlines.iter().enumerate() {
            let part = NewPart::of(RequestKey::from_index(request), Expected::Retrieval, Begun::at(at(0)));
            times.add(at(deadline), true, Some(TIMEOUT_NS));
            pipeline.begin(part, Purpose::Request, at(deadline), at(0));
            pipeline.message().push(b'x');
            pipeline.end_message();
        }
        pipeline.note_written(deadlines.len(), at(0), |_| ());
        (pipeline, times)
    }

    fn given_up(request: usize) -> GivenUp {
        GivenUp::Request(RequestKey::from_index(request))
    }

    fn late(pipeline: &mut Pipeline, times: &mut Deadlines, terms: Terms, now: u64) -> Vec<GivenUp> {
        let mut late = Vec::new();
        times.expire(pipeline, terms, at(now), |what, _| late.push(what));
        times.reckon(pipeline, terms);
        late
    }

    #[test]
    fn each_part_is_late_at_its_own_deadline_whatever_their_order() {
        let (mut pipeline, mut times) = waiting(&[100, 300, 200]);
        assert_eq!(times.next(&pipeline, ALONE), Some(at(100)));
        assert_eq!(late(&mut pipeline, &mut times, ALONE, 99), []);
        assert_eq!(late(&mut pipeline, &mut times, ALONE, 100), [given_up(0)]);
        assert_eq!(times.next(&pipeline, ALONE), Some(at(200)), "the last one overtakes");
        assert_eq!(late(&mut pipeline, &mut times, ALONE, 200), [given_up(2)]);
        assert_eq!(late(&mut pipeline, &mut times, ALONE, 300), [given_up(1)]);
        assert_eq!(late(&mut pipeline, &mut times, ALONE, 900), []);
        assert!(!times.may_be_late(at(900)));
    }

    #[test]
    fn the_heads_deadline_moves_with_its_reply_and_no_others_does() {
        let (mut pipeline, mut times) = waiting(&[100, 110]);
        let begun = Terms::new(TIMEOUT_NS, false, true, None);
        times.note_progress(10, false, 5, at(90));
        assert_eq!(late(&mut pipeline, &mut times, begun, 150), [given_up(1)]);
        times.note_progress(4, true, 5, at(150));
        assert_eq!(times.next(&pipeline, begun), Some(at(190)), "so few bytes are no progress");
        assert!(times.has_progressed(TIMEOUT_NS, at(189)) && !times.has_progressed(TIMEOUT_NS, at(190)));
        assert_eq!(late(&mut pipeline, &mut times, begun, 190), [given_up(0)]);
    }

    #[test]
    fn reads_may_be_asked_elsewhere_at_half_time_once_and_still_count_as_late() {
        let (mut pipeline, mut times) = waiting(&[100, 120]);
        assert_eq!(times.reads_late_at(&pipeline, ALONE), None, "nobody else has the keys");
        assert_eq!(times.reads_late_at(&pipeline, COPIED), Some(at(50)));
        let reads = times.late_reads(&pipeline, TIMEOUT_NS, at(60));
        assert_eq!(
            reads.iter().map(|(place, request, ..)| (*place, request.index())).collect::<Vec<_>>(),
            [(0, 0)]
        );
        pipeline.parts_mut()[0].note_moved();
        assert_eq!(times.reads_late_at(&pipeline, COPIED), Some(at(70)), "that is the second");
        assert_eq!(late(&mut pipeline, &mut times, COPIED, 100), [GivenUp::Moved]);
    }

    #[test]
    fn places_move_up_when_parts_leave() {
        let (mut pipeline, mut times) = waiting(&[100, 100, 100, 200]);
        assert_eq!(late(&mut pipeline, &mut times, ALONE, 100).len(), 3);
        let taken = [pipeline.take_head(), pipeline.take_head()];
        assert_eq!(taken.map(|part| part.request()), [None, None], "they were given up");
        times.note_left(2);
        assert_eq!(late(&mut pipeline, &mut times, ALONE, 200), [given_up(3)]);
    }
}
