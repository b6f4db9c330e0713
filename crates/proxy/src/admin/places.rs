//! Who is connected to the admin port, what their answers keep, and who gives way to whom.
//!
//! ```text
//!   enter ─▶ asks ─▶ begin: an answer is made ─▶ answered: takes it ─▶ leaves
//!              └── waited for ──┘                    └── waited for ──┘
//! ```
//!
//! Whoever comes is let in. Where all places are taken, the client that has made us wait longest gives way: it has not asked yet, or has
//! not taken its answer. An answer for which there is no memory makes those give way that have left theirs unread for longest. So
//! clients that never ask or never read cost each other their places, and nobody else.
//!
//! Answers that are being made do not give way. Fewer of them than there are places are begun, and more for readiness than for other
//! pages; so there is always a place for who comes, and one for who asks about health.

use crate::connections::descriptors::ADMIN_CONNECTIONS_MAX;
use std::{
    collections::BTreeMap,
    future::poll_fn,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};
use tokio::{sync::Notify, time};

/// Answers that are being made at once: of those that everybody may have, and with those about readiness.
const PAGES_MAX: usize = 24;
const WITH_READINESS_MAX: usize = 48;

/// What unread answers may keep together, in bytes; one alone may be longer.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// How long a client may take to ask.
const ASKING_MAX: Duration = Duration::from_secs(10);

/// How long a client may take to take its answer.
pub(super) const TAKING_MAX: Duration = Duration::from_secs(30);

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    Readiness,
    Pages,
}

/// The connections of the admin port.
#[derive(Debug, Default)]
pub(crate) struct Places {
    inner: Mutex<Inner>,
    accepted: AtomicU64,
    gave_way: AtomicU64,
    late: AtomicU64,
    busy: AtomicU64,
    strangers: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    guests: BTreeMap<u64, Guest>,
    /// How many waits have begun: the clock that shows who has waited longest.
    waits: u64,
}

#[derive(Debug)]
struct Guest {
    /// When the wait for it began; `None` while its answer is being made.
    waited_since: Option<u64>,
    answer_bytes: usize,
    gives_way: Arc<Notify>,
}

/// One connection's place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    id: u64,
    gives_way: Arc<Notify>,
    asked: Notify,
    answered: Notify,
}

/// One number about the admin port: its name, its meaning, whether it only grows, and its value.
pub(crate) type Count = (&'static str, &'static str, bool, u64);

impl Places {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Whatever is changed under the lock is whole at every step that could panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody has connected.
    pub(super) fn enter(self: &Arc<Self>) -> Place {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let mut inner = self.inner();
        if inner.guests.len() >= ADMIN_CONNECTIONS_MAX {
            self.make_room(&mut inner, |_| true);
        }
        let since = inner.begin_wait();
        let gives_way = Arc::new(Notify::new());
        let guest = Guest { waited_since: Some(since), answer_bytes: 0, gives_way: Arc::clone(&gives_way) };
        inner.guests.insert(since, guest);
        drop(inner);
        let places = Arc::clone(self);
        Place { places, id: since, gives_way, asked: Notify::new(), answered: Notify::new() }
    }

    /// There is no descriptor for somebody who has connected.
    pub(super) fn make_way(&self) {
        self.make_room(&mut self.inner(), |_| true);
    }

    /// Sends away whom we have waited for longest, among those that `may` go. Returns whether there was one.
    fn make_room(&self, inner: &mut Inner, may: impl Fn(&Guest) -> bool) -> bool {
        let waiting = inner.guests.iter().filter(|(_, guest)| may(guest));
        let longest = waiting.filter_map(|(id, guest)| Some((guest.waited_since?, *id))).min();
        let Some(guest) = longest.and_then(|(_, id)| inner.guests.remove(&id)) else { return false };
        guest.gives_way.notify_one();
        self.gave_way.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// A question was refused because of who asked, or because it did not show the token.
    pub(super) fn note_stranger(&self) {
        self.strangers.fetch_add(1, Ordering::Relaxed);
    }

    /// What is reported of the admin port.
    pub(crate) fn counts(&self) -> [Count; 7] {
        let inner = self.inner();
        let (open, held) = (inner.guests.len() as u64, inner.held_bytes() as u64);
        drop(inner);
        let value = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            ("connections", "Connections to the admin port that are open.", false, open),
            (
                "buffered_bytes",
                "Memory of answers that clients of the admin port have not taken.",
                false,
                held,
            ),
            ("accepted", "Connections to the admin port.", true, value(&self.accepted)),
            (
                "gave_way",
                "Connections to the admin port that were closed because others needed their place or memory.",
                true,
                value(&self.gave_way),
            ),
            (
                "late",
                "Connections to the admin port that were closed because their clients took too long to ask, or to take the answer.",
                true,
                value(&self.late),
            ),
            (
                "busy",
                "Questions to the admin port that were refused because too many were being answered.",
                true,
                value(&self.busy),
            ),
            (
                "strangers",
                "Questions to the admin port that were refused because of their Host or Origin, or because they did not show the token.",
                true,
                value(&self.strangers),
            ),
        ]
    }
}

impl Inner {
    fn begin_wait(&mut self) -> u64 {
        self.waits += 1;
        self.waits
    }

    fn held_bytes(&self) -> usize {
        self.guests.values().map(|guest| guest.answer_bytes).sum()
    }

    fn in_the_making(&self) -> usize {
        self.guests.values().filter(|guest| guest.waited_since.is_none()).count()
    }
}

impl Place {
    /// The question is here.
    pub(super) fn note_asked(&self) {
        self.asked.notify_one();
    }

    /// Its answer is going to be made, if not too many are.
    pub(super) fn begin(&self, about: About) -> bool {
        let most = match about {
            About::Readiness => WITH_READINESS_MAX,
            About::Pages => PAGES_MAX,
        };
        let mut inner = self.places.inner();
        let is_room = inner.in_the_making() < most;
        match inner.guests.get_mut(&self.id) {
            Some(guest) if is_room => {
                guest.waited_since = None;
                true
            }
            _ => {
                self.places.busy.fetch_add(1, Ordering::Relaxed);
                false
            }
        }
    }

    /// Its answer is there and keeps this many bytes until the client has taken it.
    pub(super) fn note_answered(&self, bytes: usize) {
        let mut inner = self.places.inner();
        while inner.held_bytes() + bytes > ANSWER_BYTES_MAX
            && self.places.make_room(&mut inner, |guest| guest.answer_bytes > 0)
        {}
        let since = inner.begin_wait();
        if let Some(guest) = inner.guests.get_mut(&self.id) {
            guest.waited_since = Some(since);
            guest.answer_bytes = bytes;
        }
        drop(inner);
        self.answered.notify_one();
    }

    /// Returns when the connection is to be closed, whatever its client still does.
    pub(super) async fn has_ended(&self) {
        let late = async {
            self.is_late().await;
            self.places.late.fetch_add(1, Ordering::Relaxed);
        };
        either(self.gives_way.notified(), late).await;
    }

    async fn is_late(&self) {
        if time::timeout(ASKING_MAX, self.asked.notified()).await.is_ok() {
            // What takes long here is not the client's doing.
            self.answered.notified().await;
            time::sleep(TAKING_MAX).await;
        }
    }
}

/// Returns as soon as one of both is done; the other is given up.
pub(super) async fn either(one: impl Future, other: impl Future) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| {
        let is_done = one.as_mut().poll(context).is_ready() || other.as_mut().poll(context).is_ready();
        if is_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.inner().guests.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(places: &Places, name: &str) -> u64 {
        places.counts().iter().find(|(it, ..)| *it == name).expect("it is counted").3
    }

    fn is_sent_away(place: &Place) -> bool {
        !place.places.inner().guests.contains_key(&place.id)
    }

    #[test]
    fn who_comes_is_let_in_and_who_was_waited_for_longest_gives_way() {
        let places = Arc::new(Places::default());
        let all: Vec<_> = (0..ADMIN_CONNECTIONS_MAX).map(|_| places.enter()).collect();
        assert!(all[0].begin(About::Pages), "its answer is being made");
        let next = places.enter();
        assert!(!is_sent_away(&all[0]));
        assert!(is_sent_away(&all[1]));
        all[0].note_answered(1);
        let (_third, _fourth) = (places.enter(), places.enter());
        assert!(is_sent_away(&all[2]) && is_sent_away(&all[3]) && !is_sent_away(&all[0]));
        assert_eq!(count(&places, "connections"), ADMIN_CONNECTIONS_MAX as u64);
        assert_eq!(count(&places, "gave_way"), 3);
        drop((all, next));
        assert_eq!(count(&places, "connections"), 2);
        assert_eq!(count(&places, "buffered_bytes"), 0);
    }

    #[test]
    fn a_place_is_kept_for_who_asks_about_health() {
        let places = Arc::new(Places::default());
        let all: Vec<_> = (0..ADMIN_CONNECTIONS_MAX).map(|_| places.enter()).collect();
        let begun = all.iter().filter(|place| place.begin(About::Pages)).count();
        assert_eq!(begun, PAGES_MAX);
        assert!(all[PAGES_MAX].begin(About::Readiness));
        assert_eq!(count(&places, "busy"), (ADMIN_CONNECTIONS_MAX - PAGES_MAX) as u64);
        // There is always somebody who can give way.
        let begun = all[PAGES_MAX + 1..].iter().filter(|place| place.begin(About::Readiness)).count();
        assert_eq!(1 + begun, WITH_READINESS_MAX - PAGES_MAX);
        let newcomer = places.enter();
        assert!(!is_sent_away(&newcomer));
    }

    #[test]
    fn unread_answers_keep_no_more_than_they_may() {
        let places = Arc::new(Places::default());
        let all: Vec<_> = (0..5).map(|_| places.enter()).collect();
        for place in &all {
            assert!(place.begin(About::Pages));
            place.note_answered(ANSWER_BYTES_MAX / 4);
        }
        let away: Vec<_> = all.iter().map(is_sent_away).collect();
        assert_eq!(away, [true, false, false, false, false]);
        let long = places.enter();
        assert!(long.begin(About::Pages));
        long.note_answered(2 * ANSWER_BYTES_MAX);
        assert!(all.iter().all(is_sent_away), "one alone may be longer");
        assert_eq!(count(&places, "buffered_bytes"), 2 * ANSWER_BYTES_MAX as u64);
    }
}
