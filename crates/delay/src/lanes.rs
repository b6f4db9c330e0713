//! Frames on their way: a lane per port, in which they wait until they are due.
//!
//! A port delays all that leaves through it by the same time, so a lane is a line and not a heap: who came first leaves first. Pure; time
//! is an argument, in nanoseconds.

use std::collections::VecDeque;

use crate::frame::{Frame, OnWire};

/// What a port limits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    /// How long what leaves through the port is on its way.
    pub(crate) delay_ns: u64,
    /// What may come in through it, bits per second; `None` for as much as comes.
    pub(crate) rate_bit_s: Option<u64>,
    /// Bytes that may wait, for the rate and for the delay each.
    pub(crate) waiting_bytes_max: u64,
}

/// What became of frames at a port, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) received_packets: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
    /// Packets that came faster than the rate for so long that no more may wait for it.
    pub(crate) dropped_at_rate: u64,
    /// Packets for which the lane had no room.
    pub(crate) dropped_at_lane: u64,
    pub(crate) waiting_bytes_max: u64,
}

/// A frame that may leave.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) frame: Frame,
    pub(crate) due_ns: u64,
    pub(crate) on_wire: OnWire,
}

/// One port.
#[derive(Debug)]
pub(crate) struct Lane {
    limits: Limits,
    /// When the link that comes in has sent what it was given.
    link_free_ns: u64,
    waiting: VecDeque<Due>,
    waiting_bytes: u64,
    passed: Passed,
}

impl Lane {
    pub(crate) fn new(limits: Limits) -> Lane {
        Lane {
            limits,
            link_free_ns: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            passed: Passed::default(),
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    pub(crate) fn passed(&self) -> Passed {
        self.passed
    }

    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// A frame came in through this port at `arrived_ns`. Says when its last bit has left the sender; `None` if it is dropped.
    pub(crate) fn receive(&mut self, on_wire: OnWire, arrived_ns: u64) -> Option<u64> {
        self.passed.received_packets += on_wire.packets;
        self.passed.received_bytes += on_wire.bytes;
        let Some(rate) = self.limits.rate_bit_s else { return Some(arrived_ns) };
        let backlog_ns = self.link_free_ns.saturating_sub(arrived_ns);
        if backlog_ns > time_ns(self.limits.waiting_bytes_max, rate) {
            self.passed.dropped_at_rate += on_wire.packets;
            return None;
        }
        self.link_free_ns = self.link_free_ns.max(arrived_ns) + time_ns(on_wire.bytes, rate);
        Some(self.link_free_ns)
    }

    /// A frame that was sent at `sent_ns` is to leave through this port. Says whether there was room.
    pub(crate) fn enter(&mut self, frame: Frame, on_wire: OnWire, sent_ns: u64) -> bool {
        if self.waiting_bytes + on_wire.bytes > self.limits.waiting_bytes_max {
            self.passed.dropped_at_lane += on_wire.packets;
            return false;
        }
        // Frames of two senders may be read in another order than they came; who was read first leaves first.
        let earliest = self.waiting.back().map_or(0, |last| last.due_ns);
        let due_ns = earliest.max(sent_ns + self.limits.delay_ns);
        self.waiting_bytes += on_wire.bytes;
        self.passed.waiting_bytes_max = self.passed.waiting_bytes_max.max(self.waiting_bytes);
        self.waiting.push_back(Due { frame, due_ns, on_wire });
        true
    }

    /// When the next frame is due.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        self.waiting.front().map(|first| first.due_ns)
    }

    /// The next frame, if it is due at `until_ns` or before. It is counted as sent.
    pub(crate) fn leave(&mut self, until_ns: u64) -> Option<Due> {
        if self.next_due_ns()? > until_ns {
            return None;
        }
        let due = self.waiting.pop_front()?;
        self.waiting_bytes -= due.on_wire.bytes;
        self.passed.sent_packets += due.on_wire.packets;
        self.passed.sent_bytes += due.on_wire.bytes;
        Some(due)
    }
}

/// How long a link takes for `bytes`.
fn time_ns(bytes: u64, rate_bit_s: u64) -> u64 {
    (u128::from(bytes) * 8_000_000_000 / u128::from(rate_bit_s)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::example;

    fn lane(delay_ns: u64, rate_bit_s: Option<u64>, waiting_bytes_max: u64) -> Lane {
        Lane::new(Limits { delay_ns, rate_bit_s, waiting_bytes_max })
    }

    fn put(lane: &mut Lane, bytes: usize, sent_ns: u64) -> bool {
        let frame = example(1, 2, bytes);
        let on_wire = frame.on_wire();
        lane.enter(frame, on_wire, sent_ns)
    }

    #[test]
    fn a_frame_leaves_its_delay_after_it_was_sent_and_in_order() {
        let mut lane = lane(350, None, 1_000);
        assert!(put(&mut lane, 60, 1_000) && put(&mut lane, 61, 1_010) && put(&mut lane, 62, 1_005));
        assert_eq!(lane.next_due_ns(), Some(1_350));
        assert!(lane.leave(1_349).is_none());
        let left: Vec<_> =
            std::iter::from_fn(|| lane.leave(2_000)).map(|due| (due.on_wire.bytes, due.due_ns)).collect();
        assert_eq!(left, [(60, 1_350), (61, 1_360), (62, 1_360)]);
        assert_eq!((lane.next_due_ns(), lane.waiting_bytes()), (None, 0));
        assert_eq!((lane.passed().sent_packets, lane.passed().sent_bytes), (3, 183));
    }

    #[test]
    fn a_lane_without_room_drops_and_counts() {
        let mut lane = lane(350, None, 100);
        assert!(put(&mut lane, 60, 0));
        assert!(!put(&mut lane, 60, 0));
        assert_eq!((lane.passed().dropped_at_lane, lane.passed().waiting_bytes_max), (1, 60));
        assert!(lane.leave(350).is_some());
        assert!(put(&mut lane, 60, 400), "there is room again");
    }

    #[test]
    fn a_rate_spaces_what_comes_and_lets_only_so_much_wait() {
        // 8 Mbit/s: a byte a microsecond.
        let mut lane = lane(0, Some(8_000_000), 250);
        let packet = OnWire { packets: 1, bytes: 100 };
        let sent: Vec<_> = (0..5).map(|_| lane.receive(packet, 0)).collect();
        assert_eq!(sent, [Some(100_000), Some(200_000), Some(300_000), None, None]);
        assert_eq!((lane.passed().dropped_at_rate, lane.passed().received_packets), (2, 5));
        assert_eq!(lane.receive(packet, 1_000_000), Some(1_100_000), "an idle link keeps no tokens");
    }
}
