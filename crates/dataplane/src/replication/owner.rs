//! One order per key over several loops: every key that has replicas is written by one loop, its owner.
//!
//! Two loops that wrote the same key would reach two replicas in different orders, each over connections of its own, and the replicas
//! would differ. So a write of such a key that another loop has read goes to the owner's dataplane as mail (`mailbox.rs`).
//!
//! The owner is a matter of the key and the number of loops alone, not of the table. While two loops go by different tables for a moment, a
//! key that has replicas in both still has one owner. Reads, and writes of keys with one server, are mailed to nobody.

use crate::{wire::hash::hash, wire::ids::LoopId};

/// Which of this many loops owns a key, where it has replicas.
pub fn owner_of(name: &[u8], loops: usize) -> LoopId {
    // The upper bits of the product are as even as the hash (Lemire, "Fast random integer generation in an interval", 2019).
    let place = (u128::from(hash(name)) * loops as u128) >> 64;
    LoopId::from_index(usize::try_from(place).expect("a place among the loops"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_owners_in_equal_shares() {
        for loops in [2, 3, 7] {
            let mut counts = vec![0; loops];
            for number in 0..10_000 {
                counts[owner_of(format!("key:{number}").as_bytes(), loops).index()] += 1;
            }
            let share = 10_000 / loops;
            assert!(
                counts.iter().all(|&count| count > share * 9 / 10 && count < share * 11 / 10),
                "{counts:?}"
            );
        }
    }
}
