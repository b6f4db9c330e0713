//! One memcached server with its troubles.

use std::collections::VecDeque;

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use super::{link::Link, scenario::VALUE_BYTES_MAX};
use crate::memcached::{Connection, Memcached};

/// What can befall a server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It reads nothing and answers nothing for this long; the kernel still accepts connections.
    Freeze(u64),
    /// It closes its connection, and can be connected to again.
    Close,
    /// The same in the middle of its next answer.
    CloseWithin,
    /// It closes its connection and refuses others for this long.
    Refuse(u64),
    /// Its packets and those to it are lost for this long: connections are neither made nor refused, and bytes wait.
    Vanish(u64),
    /// It answers this much later, for this long.
    Late { extra_ns: u64, length_ns: u64 },
    /// It closes its connection and forgets everything.
    Restart,
}

#[derive(Debug)]
pub(super) struct SimulatedServer {
    pub(super) memcached: Memcached,
    /// Number of the proxy's latest attempt to connect. What belongs to an earlier one is void.
    pub(super) attempt: u64,
    /// The attempt that was established, as the server sees it, with what it has not answered.
    connection: Option<(u64, Connection)>,
    inbox: VecDeque<Vec<u8>>,
    pub(super) to_server: Link,
    pub(super) to_proxy: Link,
    frozen_until_ns: u64,
    refuses_until_ns: u64,
    vanished_until_ns: u64,
    late_until_ns: u64,
    extra_ns: u64,
    closes_within: bool,
}

impl Fault {
    /// `timeout_ns`: how long the proxy waits for a server.
    pub(super) fn random(timeout_ns: u64, rng: &mut SmallRng) -> Self {
        let length_ns = rng.random_range(1..=timeout_ns * 3);
        let extra_ns = rng.random_range(1..=timeout_ns * 2);
        *[
            Self::Freeze(length_ns),
            Self::Freeze(length_ns),
            Self::Close,
            Self::CloseWithin,
            Self::CloseWithin,
            Self::Refuse(length_ns),
            Self::Vanish(length_ns),
            Self::Late { extra_ns, length_ns },
            Self::Restart,
        ]
        .choose(rng)
        .expect("some faults")
    }
}

impl SimulatedServer {
    pub(super) fn new() -> Self {
        Self {
            memcached: Memcached::default().with_item_size(VALUE_BYTES_MAX),
            attempt: 0,
            connection: None,
            inbox: VecDeque::new(),
            to_server: Link::default(),
            to_proxy: Link::default(),
            frozen_until_ns: 0,
            refuses_until_ns: 0,
            vanished_until_ns: 0,
            late_until_ns: 0,
            extra_ns: 0,
            closes_within: false,
        }
    }

    /// Something befalls it. Returns whether it closes its connection.
    pub(super) fn befall(&mut self, fault: Fault, now_ns: u64) -> bool {
        match fault {
            Fault::Freeze(length_ns) => self.frozen_until_ns = self.frozen_until_ns.max(now_ns + length_ns),
            Fault::Refuse(length_ns) => self.refuses_until_ns = self.refuses_until_ns.max(now_ns + length_ns),
            Fault::Vanish(length_ns) => {
                self.vanished_until_ns = self.vanished_until_ns.max(now_ns + length_ns);
                self.frozen_until_ns = self.frozen_until_ns.max(now_ns + length_ns);
            }
            Fault::Late { extra_ns, length_ns } => {
                self.late_until_ns = now_ns + length_ns;
                self.extra_ns = extra_ns;
            }
            Fault::Close => {}
            Fault::CloseWithin => self.closes_within = true,
            Fault::Restart => self.memcached.clear(),
        }
        let closes = matches!(fault, Fault::Close | Fault::Refuse(_) | Fault::Restart);
        closes && self.hang_up()
    }

    /// Forgets its connection and everything on it that it has not read. Returns whether there was one.
    fn hang_up(&mut self) -> bool {
        self.inbox.clear();
        self.connection.take().is_some()
    }

    /// The proxy connects; `None` if nothing comes of it, not even a refusal.
    pub(super) fn accepts(&self, now_ns: u64) -> Option<bool> {
        (now_ns >= self.vanished_until_ns).then_some(now_ns >= self.refuses_until_ns)
    }

    /// The connection of this attempt is established.
    pub(super) fn accept(&mut self, attempt: u64) {
        self.inbox.clear();
        self.connection = Some((attempt, Connection::default()));
    }

    /// The proxy has dropped its connection, or begins another.
    pub(super) fn forget(&mut self) {
        self.attempt += 1;
        (self.to_server, self.to_proxy) = (Link::default(), Link::default());
        self.hang_up();
    }

    /// Whether this attempt is the connection that it has.
    pub(super) fn is_connected(&self, attempt: u64) -> bool {
        self.connection.as_ref().is_some_and(|(established, _)| *established == attempt)
    }

    /// Bytes arrive; they are read by [`Self::work`].
    pub(super) fn receive(&mut self, bytes: Vec<u8>) {
        self.inbox.push_back(bytes);
    }

    /// Reads what has arrived, and answers. The time at which to try again if it is frozen.
    pub(super) fn work(&mut self, now_ns: u64) -> Result<Vec<u8>, u64> {
        if now_ns < self.frozen_until_ns {
            return Err(self.frozen_until_ns);
        }
        let mut answer = Vec::new();
        if let Some((_, connection)) = &mut self.connection {
            for bytes in self.inbox.drain(..) {
                self.memcached.handle_bytes(connection, &bytes, &mut answer);
            }
        }
        Ok(answer)
    }

    /// Whether it closes its connection in the middle of this answer.
    pub(super) fn closes_within(&mut self, answer: &[u8]) -> bool {
        let closes = self.closes_within && answer.len() > 1;
        if closes {
            self.closes_within = false;
            self.hang_up();
        }
        closes
    }

    /// How much later than usual it answers.
    pub(super) fn lateness_ns(&self, now_ns: u64) -> u64 {
        if now_ns < self.late_until_ns { self.extra_ns } else { 0 }
    }
}
