//! One direction of a connection.

use rand::Rng;
use rand::rngs::SmallRng;

/// Bytes that are on their way arrive in their order, each piece some time after it was sent.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// When the last piece arrives.
    last_ns: u64,
}

/// How links treat what is sent.
#[derive(Copy, Clone, Debug)]
pub(super) struct Conduct {
    /// The longest delay in nanoseconds.
    pub(super) delay_max_ns: u64,
    /// The longest piece in bytes.
    pub(super) piece_bytes_max: usize,
}

impl Link {
    /// Cuts `bytes` into pieces, each with its time of arrival.
    pub(super) fn carry(
        &mut self,
        bytes: &[u8],
        now_ns: u64,
        conduct: Conduct,
        rng: &mut SmallRng,
    ) -> Vec<(u64, Vec<u8>)> {
        let mut pieces = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let longest = rest.len().min(conduct.piece_bytes_max);
            let (piece, later) = rest.split_at(rng.random_range(1..=longest));
            pieces.push((self.arrival(now_ns, conduct, rng), piece.to_vec()));
            rest = later;
        }
        pieces
    }

    /// When something that is sent now arrives: after everything that was sent before.
    pub(super) fn arrival(&mut self, now_ns: u64, conduct: Conduct, rng: &mut SmallRng) -> u64 {
        let delay = rng.random_range(0..=conduct.delay_max_ns);
        self.last_ns = self.last_ns.max(now_ns + delay);
        self.last_ns
    }
}
