//! In a steady state a request costs no allocation: everything that it needs was needed by one before it.
//!
//! A few are left in thousands of requests: of many buffers that are used in turn, one meets a longer reply than it has met before.

use weir_testkit::steady::{Load, Steady};

const ONE: Load = Load { clients: 1, depth: 1, keys: 1, set_every: 10, value_bytes: 128, servers: 3 };

/// Turns before counting: buffers and tables grow to their size in them.
const WARM_UP: usize = 500;

const COUNTED: usize = 200;

const REQUESTS_PER_ALLOCATION: u64 = 10_000;

fn allocations(load: Load) -> u64 {
    let mut steady = Steady::new(load);
    (0..WARM_UP).for_each(|_| _ = steady.turn());
    let counted = allocation_counter::measure(|| (0..COUNTED).for_each(|_| _ = steady.turn()));
    let requests = (WARM_UP + COUNTED) * load.clients * load.depth;
    assert_eq!(steady.counts(), (requests as u64, 0), "{load:?}");
    counted.count_total
}

#[test]
fn a_request_in_a_steady_state_allocates_nothing() {
    for load in [
        ONE,
        Load { value_bytes: 4096, ..ONE },
        Load { keys: 9, set_every: 0, ..ONE },
        Load { clients: 64, ..ONE },
        Load { clients: 32, depth: 10, ..ONE },
        Load { clients: 16, keys: 9, set_every: 0, ..ONE },
        Load { clients: 4, depth: 10, value_bytes: 4096, ..ONE },
    ] {
        let requests = (COUNTED * load.clients * load.depth) as u64;
        let allowed = requests / REQUESTS_PER_ALLOCATION;
        let counted = allocations(load);
        assert!(
            counted <= allowed,
            "{counted} allocations in {requests} requests, {allowed} are allowed: {load:?}"
        );
    }
}
