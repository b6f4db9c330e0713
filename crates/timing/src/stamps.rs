use crate::Instant;

/// When each thing happened to one request. Stamps are taken at the event itself and travel with the request.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// The read that brought the request's first byte returned.
    pub first_byte: Instant,
    /// The request is complete and parsed.
    pub created: Instant,
    /// It was put in the queue where it waits to be served.
    pub enqueued: Instant,
    /// It was taken from that queue.
    pub dequeued: Instant,
    /// The last byte of the first message to a server was handed to the kernel. No stage begins here; it is kept for
    /// comparison with measurements that let the service begin at the first send.
    pub first_sent: Instant,
    /// The last byte of the last message to a server was handed to the kernel.
    pub forwarded: Instant,
    /// The last server reply that the request needs was complete.
    pub received: Instant,
    /// The last byte of the reply was handed to the kernel for the client.
    pub answered: Instant,
}

/// A part of a request's life, from one stamp to the next.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// From `first_byte` to `created`: the rest of the request arrives and is parsed.
    Read,
    /// From `created` to `enqueued`: its servers are found.
    Dispatch,
    /// From `enqueued` to `dequeued`: it waits to be served.
    Queue,
    /// From `dequeued` to `forwarded`: its messages are handed to the kernel.
    Send,
    /// From `forwarded` to `received`: network and memcached servers.
    Backend,
    /// From `received` to `answered`: the reply waits for its turn and is handed to the kernel.
    Reply,
}

impl Stamps {
    /// A request that began and has got no further: every stamp is `now`.
    pub const fn at(now: Instant) -> Self {
        Self {
            first_byte: now,
            created: now,
            enqueued: now,
            dequeued: now,
            first_sent: now,
            forwarded: now,
            received: now,
            answered: now,
        }
    }

    /// The length of each stage in nanoseconds, in the order of [`Stage::ALL`].
    ///
    /// A stamp that lies before its predecessor counts as equal to it, so that the stages add up to [`Self::total`] to
    /// the nanosecond whatever the stamps are. That is no mere repair of bad clocks: a server may answer a request
    /// before its last byte is sent, and then there is a `received` before `forwarded`.
    pub fn stages(&self) -> [u64; Stage::COUNT] {
        self.stages_and_whether_clamped().0
    }

    /// [`Self::stages`], and whether a stamp lay before its predecessor.
    #[inline]
    pub fn stages_and_whether_clamped(&self) -> ([u64; Stage::COUNT], bool) {
        let mut begin = self.first_byte.as_nanos();
        let mut signs = 0;
        let stages = self.ends().map(|end| {
            let length = end.as_nanos().wrapping_sub(begin);
            begin = end.as_nanos();
            signs |= length;
            length
        });
        // A length below zero has the highest bit, and no other has that before the clock is 292 years old.
        if signs >> 63 == 0 { (stages, false) } else { (self.clamped_stages(), true) }
    }

    #[cold]
    fn clamped_stages(&self) -> [u64; Stage::COUNT] {
        let mut reached = self.first_byte;
        self.ends().map(|end| {
            let length = end.saturating_since(reached);
            reached = reached.max(end);
            length
        })
    }

    /// Where each stage ends.
    #[inline]
    pub(crate) fn ends(&self) -> [Instant; Stage::COUNT] {
        [self.created, self.enqueued, self.dequeued, self.forwarded, self.received, self.answered]
    }

    /// The stamps with each that lies before its predecessor moved to that, as the stages count them.
    pub fn in_order(&self) -> Self {
        let mut ordered = *self;
        let mut reached = ordered.first_byte;
        for stamp in [
            &mut ordered.created,
            &mut ordered.enqueued,
            &mut ordered.dequeued,
            &mut ordered.forwarded,
            &mut ordered.received,
            &mut ordered.answered,
        ] {
            reached = reached.max(*stamp);
            *stamp = reached;
        }
        ordered.first_sent = self.first_sent.clamp(ordered.dequeued, ordered.forwarded);
        ordered
    }

    /// Nanoseconds from the request's first stamp to its latest one: what [`Self::stages`] add up to.
    pub fn total(&self) -> u64 {
        let last = self.ends().into_iter().fold(self.first_byte, Instant::max);
        last.saturating_since(self.first_byte)
    }
}

impl Stage {
    /// How many stages there are.
    pub const COUNT: usize = 6;

    /// Every stage, in the order in which a request passes them.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Read, Self::Dispatch, Self::Queue, Self::Send, Self::Backend, Self::Reply];

    /// The stage's name in records, metrics and axes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Dispatch => "dispatch",
            Self::Queue => "queue",
            Self::Send => "send",
            Self::Backend => "backend",
            Self::Reply => "reply",
        }
    }

    /// The stage's place in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stamps(nanos: [u64; 8]) -> Stamps {
        let [first_byte, created, enqueued, dequeued, first_sent, forwarded, received, answered] =
            nanos.map(Instant::from_nanos);
        Stamps { first_byte, created, enqueued, dequeued, first_sent, forwarded, received, answered }
    }

    #[test]
    fn each_stage_lies_between_its_two_stamps() {
        let stamps = stamps([100, 101, 103, 107, 110, 115, 131, 163]);
        assert_eq!(stamps.stages(), [1, 2, 4, 8, 16, 32]);
        assert_eq!(stamps.total(), 63);
    }

    #[test]
    fn a_stamp_before_its_predecessor_counts_as_equal_to_it() {
        let stamps = stamps([100, 110, 105, 120, 0, 140, 130, 150]);
        assert_eq!(stamps.stages(), [10, 0, 10, 20, 0, 10]);
        assert_eq!(stamps.total(), 50);
    }

    #[test]
    fn a_request_that_has_just_begun_has_no_length() {
        let stamps = Stamps::at(Instant::from_nanos(7));
        assert_eq!(stamps.stages(), [0; Stage::COUNT]);
        assert_eq!(stamps.total(), 0);
    }

    #[test]
    fn stages_are_numbered_in_order() {
        for (index, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(stage.index(), index, "{}", stage.name());
        }
    }

    /// No clock is older: 292 years.
    const CLOCK_MAX: u64 = u64::MAX >> 1;

    proptest! {
        #[test]
        fn stages_add_up_to_the_total(nanos in prop_oneof![
            prop::array::uniform8(0u64..=CLOCK_MAX),
            prop::array::uniform8(0u64..50),
        ]) {
            let stamps = stamps(nanos);
            let sum: u128 = stamps.stages().into_iter().map(u128::from).sum();
            prop_assert_eq!(sum, u128::from(stamps.total()));
        }

        #[test]
        fn stamps_in_order_have_the_same_stages(nanos in prop::array::uniform8(0u64..50)) {
            let stamps = stamps(nanos);
            let ordered = stamps.in_order();
            let (stages, is_clamped) = ordered.stages_and_whether_clamped();
            prop_assert_eq!(stages, stamps.stages());
            prop_assert!(!is_clamped);
            prop_assert!(ordered.dequeued <= ordered.first_sent && ordered.first_sent <= ordered.forwarded);
            prop_assert_eq!(ordered == stamps.in_order().in_order(), true);
        }

        #[test]
        fn ordered_stamps_give_plain_differences(mut nanos in prop::array::uniform7(0u64..=CLOCK_MAX)) {
            nanos.sort_unstable();
            let [a, b, c, d, e, f, g] = nanos;
            let stamps = stamps([a, b, c, d, d, e, f, g]);
            prop_assert_eq!(stamps.stages(), [b - a, c - b, d - c, e - d, f - e, g - f]);
            prop_assert_eq!(stamps.total(), g - a);
        }
    }
}
