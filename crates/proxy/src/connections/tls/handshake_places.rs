//! How many handshakes of clients may be under way, over all loops, and how many of them may be of one address.
//!
//! [`HandshakePlaces`] owns the counts. An address may have no more places than are free: alone it gets half of them, and with `n` others
//! that want as many as they can get, 1 part of `n + 2` of all stays free. So nobody can take the last place, whoever leaves handshakes open
//! that it never goes on with. (The rule is that of switches which share memory among their ports: Choudhury and Hahne, "Dynamic queue length
//! thresholds for shared-memory packet switches", 1998, with a factor of 1.)
//!
//! Whoever has a handshake under way keeps its [`HandshakePlace`]; the place is free again when that is dropped.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

#[derive(Debug)]
pub(super) struct HandshakePlaces {
    most: usize,
    taken: Mutex<Taken>,
}

/// One handshake's place among those under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct HandshakePlace {
    places: Arc<HandshakePlaces>,
    origin: Option<IpAddr>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// None of these is 0, so there are no more than places.
    by_origin: HashMap<IpAddr, usize>,
}

impl HandshakePlaces {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// A place, if one is free for a client of this address. `None`: it came by a socket in the file system, and all are free for it.
    pub(super) fn enter(self: &Arc<Self>, address: Option<IpAddr>) -> Option<HandshakePlace> {
        let origin = address.map(origin);
        let mut taken = self.taken();
        let free = self.most.saturating_sub(taken.all);
        let own = origin.and_then(|origin| taken.by_origin.get(&origin)).copied().unwrap_or_default();
        if own >= free {
            return None;
        }
        taken.all += 1;
        if let Some(origin) = origin {
            taken.by_origin.insert(origin, own + 1);
        }
        Some(HandshakePlace { places: Arc::clone(self), origin })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        // Nothing under the lock can panic half-way.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HandshakePlace {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all = taken.all.saturating_sub(1);
        let Some(origin) = self.origin else { return };
        match taken.by_origin.get_mut(&origin) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(taken.by_origin.remove(&origin)),
        }
    }
}

/// Whom an address belongs to. With IPv6 a subscriber has at least the 64 bits behind a network's prefix (RFC 6177).
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("it is an address"))
    }

    /// It takes as many as it can get.
    fn fill(places: &Arc<HandshakePlaces>, text: &str) -> Vec<HandshakePlace> {
        std::iter::from_fn(|| places.enter(address(text))).take(10_000).collect()
    }

    /// One client could take all places with handshakes that it left open, and keep all others out.
    #[test]
    fn an_address_leaves_as_many_places_free_as_it_has() {
        let places = HandshakePlaces::new(2048);
        let one = fill(&places, "192.0.2.1");
        assert_eq!(one.len(), 1024);
        let others: Vec<_> = ["192.0.2.2", "192.0.2.3"].map(|text| fill(&places, text).len()).into();
        assert_eq!(others, [512, 512], "what the others had is free again");
        let _others = ["192.0.2.2", "192.0.2.3"].map(|text| fill(&places, text));
        assert!(places.enter(address("192.0.2.4")).is_some(), "somebody else comes in");
        drop(one);
        assert!(places.enter(address("192.0.2.1")).is_some());
    }

    #[test]
    fn a_place_is_free_again_when_it_was_dropped_and_nothing_is_kept_of_its_address() {
        let places = HandshakePlaces::new(1);
        for text in ["192.0.2.1", "2001:db8::1"] {
            let place = places.enter(address(text));
            assert!(place.is_some() && places.enter(None).is_none());
        }
        assert!(places.enter(None).is_some());
        assert!(places.taken().by_origin.is_empty());
    }

    #[test]
    fn a_network_of_64_bits_is_one_address_and_so_is_one_that_is_written_in_two_ways() {
        let places = HandshakePlaces::new(8);
        let _four = fill(&places, "2001:db8::1");
        assert!(places.enter(address("2001:db8::2:3")).is_none());
        assert!(places.enter(address("2001:db8:0:1::1")).is_some());
        let places = HandshakePlaces::new(8);
        let _four = fill(&places, "192.0.2.1");
        assert!(places.enter(address("::ffff:192.0.2.1")).is_none());
    }
}
