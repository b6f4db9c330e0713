use crate::hash::{mix64, murmur64a, xxh3_64};
use crate::router::limits::REPLICAS_MAX;

/// Rendezvous hashing (Thaler and Ravishankar, 1998): every server has a score for the key, and the highest wins.
#[derive(Clone, Debug)]
pub(crate) struct Rendezvous {
    score: Score,
    /// A hash of each server's label.
    servers: Vec<u64>,
    /// None where all are alike.
    weights: Option<Vec<f64>>,
}

/// How key and server make a score.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Score {
    /// XXH3 of both, mixed.
    Weir,
    /// MurmurHash64A of both, mixed, as a double; of equal ones the later server's.
    Mcrouter,
}

/// mcrouter's seeds for servers and keys.
const SERVER_SEED: u64 = 4_193_360_111;
const KEY_SEED: u64 = 2_718_281_828;

impl Rendezvous {
    /// Over servers called `labels`, with `weights` unless all are alike.
    pub(crate) fn new(score: Score, labels: &[String], weights: Option<Vec<f64>>) -> Self {
        let hash = |label: &String| match score {
            Score::Weir => xxh3_64(label.as_bytes()),
            Score::Mcrouter => murmur64a(label.as_bytes(), SERVER_SEED),
        };
        Self { score, servers: labels.iter().map(hash).collect(), weights }
    }

    /// The place of the server with the highest score.
    pub(crate) fn primary(&self, key: &[u8]) -> usize {
        let hash = self.key_hash(key);
        let better = |best: (f64, usize), place| {
            let score = self.score(hash, place);
            if score >= best.0 { (score, place) } else { best }
        };
        (1..self.servers.len()).fold((self.score(hash, 0), 0), better).1
    }

    /// Fills `out` with the servers of the highest scores, the highest first.
    pub(crate) fn fill(&self, key: &[u8], out: &mut [u16]) {
        let hash = self.key_hash(key);
        let mut scores = [0.0; REPLICAS_MAX];
        let wanted = out.len().min(REPLICAS_MAX);
        let mut filled = 0;
        for place in 0..self.servers.len() {
            let score = self.score(hash, place);
            let rank = scores[..filled].partition_point(|other| *other > score);
            if rank == wanted {
                continue;
            }
            filled = wanted.min(filled + 1);
            scores.copy_within(rank..filled - 1, rank + 1);
            out.copy_within(rank..filled - 1, rank + 1);
            (scores[rank], out[rank]) = (score, place as u16);
        }
    }

    fn key_hash(&self, key: &[u8]) -> u64 {
        match self.score {
            Score::Weir => xxh3_64(key),
            Score::Mcrouter => murmur64a(key, KEY_SEED),
        }
    }

    /// mcrouter's as it is; Weir's cut to the 53 bits that a float holds exactly. With weights, minus the weight over the logarithm of a number between 0
    /// and 1, which makes a server win in proportion to its weight.
    fn score(&self, key: u64, place: usize) -> f64 {
        let server = self.servers[place];
        match (self.score, &self.weights) {
            (Score::Mcrouter, _) => hash128(server, key) as f64,
            (Score::Weir, None) => (mix64(key ^ server) >> 11) as f64,
            (Score::Weir, Some(weights)) => {
                let uniform = ((mix64(key ^ server) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
                // Of this crate's own library, not the system's: a key has one place on every machine.
                -weights[place] / libm::log(uniform)
            }
        }
    }
}

/// CityHash's mixture of two words.
fn hash128(upper: u64, lower: u64) -> u64 {
    const M: u64 = 0x9ddf_ea08_eb38_2d69;
    let first = (lower ^ upper).wrapping_mul(M);
    let second = (upper ^ first ^ first >> 47).wrapping_mul(M);
    (second ^ second >> 47).wrapping_mul(M)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From mcrouter's own test: 343 servers called `xxx.i.yy`, numbered from 0.
    #[test]
    fn keys_fall_where_mcrouter_puts_them() {
        let labels: Vec<String> = (0..343).map(|number| format!("xxx.{number}.yy")).collect();
        let rendezvous = Rendezvous::new(Score::Mcrouter, &labels, None);
        assert_eq!([b"sample".as_slice(), b"mykey", b""].map(|key| rendezvous.primary(key)), [45, 132, 291]);
    }

    #[test]
    fn servers_are_ranked_by_score() {
        let labels: Vec<String> = (0..100).map(|number| format!("server-{number}")).collect();
        for score in [Score::Weir, Score::Mcrouter] {
            let rendezvous = Rendezvous::new(score, &labels, None);
            let hash = rendezvous.key_hash(b"key");
            let mut expected: Vec<u16> = (0..100).collect();
            expected.sort_by(|a, b| {
                let [a, b] = [a, b].map(|place| rendezvous.score(hash, usize::from(*place)));
                b.total_cmp(&a)
            });
            for wanted in [0, 1, 2, 5, 64] {
                let mut out = vec![0; wanted];
                rendezvous.fill(b"key", &mut out);
                assert_eq!(out, expected[..wanted]);
            }
        }
    }
}
