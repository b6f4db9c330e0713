//! What is known of the reads of a session: what a key of them brings.
//!
//! It learns what slices and large replies brought. It says how many keys the next slice may have, from how many keys on a read is carried
//! out with care, and how many requests may be in service.

use crate::Config;

/// A read of this many keys is carried out with care, whatever the session's last ones brought.
const KEYS_MIN: usize = 32;

/// So is one that is expected to bring such a part of a slice.
const CARE_SHARE: usize = 8;

/// How many keys the first slice of a new session has.
const NEW_SLICE_KEYS: usize = 16;

/// A slice has no more keys than this, however little they bring: each is planned, hashed and written in one turn, while others wait.
pub(crate) const SLICE_KEYS_MAX: usize = 4096;

/// If a slice has brought less than expected, each of its keys halves what is expected, at most this many of them.
const HALVINGS_MAX: usize = 3;

/// This many requests of a session may be in service while nothing is known of it. Each time that it waits for that, and its replies are
/// small, there may be twice as many.
const NEW_REQUESTS_MAX: usize = 8;

/// What is known of the reads of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// What a slice is expected to bring at most, unless it has one key: [`Config::slice_bytes`].
    slice_bytes: usize,
    /// What a key brought of late. More counts at once, less by and by.
    bytes_per_key: usize,
    /// A read of this many keys is carried out with care.
    keys_min: usize,
    /// How many requests may be in service.
    requests_max: usize,
    /// A slice has come.
    is_known: bool,
}

impl Habits {
    /// Those of a new session.
    pub(crate) fn new(config: &Config) -> Self {
        let Config { slice_bytes, session_requests_max, .. } = *config;
        let habits = Self {
            slice_bytes,
            bytes_per_key: 1,
            keys_min: usize::MAX,
            requests_max: session_requests_max,
            is_known: false,
        };
        if slice_bytes == usize::MAX {
            return habits;
        }
        let requests_max = session_requests_max.min(NEW_REQUESTS_MAX);
        Self { requests_max, ..habits.with_bytes_per_key(slice_bytes / NEW_SLICE_KEYS) }
    }

    /// What a key is expected to bring.
    pub(crate) fn bytes_per_key(&self) -> usize {
        self.bytes_per_key
    }

    /// From how many keys on a read is carried out with care.
    #[inline]
    pub(crate) fn keys_min(&self) -> usize {
        self.keys_min
    }

    /// Whether a slice has come.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    fn with_bytes_per_key(self, bytes: usize) -> Self {
        let bytes = bytes.max(1);
        let keys_min = (self.slice_bytes / CARE_SHARE / bytes).clamp(1, KEYS_MIN);
        Self { bytes_per_key: bytes, keys_min, ..self }
    }

    /// How many requests may be in service.
    #[inline]
    pub(crate) fn requests_max(&self) -> usize {
        self.requests_max
    }

    /// A reply is large, and brought this many bytes per key.
    #[cold]
    pub(crate) fn note_large(&mut self, bytes_per_key: usize) {
        if self.slice_bytes == usize::MAX {
            return;
        }
        if bytes_per_key > self.bytes_per_key {
            *self = self.with_bytes_per_key(bytes_per_key);
        }
        self.requests_max = self.requests_max.min(NEW_REQUESTS_MAX);
    }

    /// A slice of this many keys brought this many bytes.
    pub(crate) fn note_slice(&mut self, keys: usize, bytes: usize) {
        self.is_known = true;
        let faded = self.bytes_per_key >> keys.min(HALVINGS_MAX);
        *self = self.with_bytes_per_key(faded.max(bytes / keys.max(1)));
    }

    /// The session has waited for replies, and goes on.
    pub(crate) fn grow(&mut self, requests_max: usize) {
        if self.bytes_per_key <= self.slice_bytes / NEW_SLICE_KEYS {
            self.requests_max = (2 * self.requests_max).min(requests_max);
        }
    }

    /// Whether a read of this many keys is carried out in slices, however little they bring.
    pub(crate) const fn slices(&self, keys: usize) -> bool {
        self.slice_bytes < usize::MAX && keys > SLICE_KEYS_MAX
    }

    /// How many keys a slice may have.
    pub(crate) fn keys_per_slice(&self) -> usize {
        (self.slice_bytes / self.bytes_per_key).clamp(1, SLICE_KEYS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn habits(slice_bytes: usize) -> Habits {
        Habits::new(&Config { slice_bytes, session_requests_max: 1000, ..Config::default() })
    }

    #[test]
    fn what_a_key_brings_is_learned_at_once_and_forgotten_slowly() {
        let mut habits = habits(1 << 20);
        assert_eq!((habits.keys_per_slice(), habits.keys_min, habits.is_known), (16, 2, false));
        habits.note_slice(1, 1 << 20);
        assert_eq!((habits.keys_per_slice(), habits.keys_min, habits.is_known), (1, 1, true));
        let sizes = [0; 9].map(|_| {
            let keys = habits.keys_per_slice();
            habits.note_slice(keys, 100 * keys);
            (habits.keys_per_slice(), habits.keys_min)
        });
        assert_eq!(sizes[..4], [(2, 1), (8, 1), (64, 8), (512, 32)]);
        assert_eq!(sizes[8], (SLICE_KEYS_MAX, 32), "100 bytes per key");
        habits.note_large(500_000);
        assert_eq!((habits.keys_per_slice(), habits.keys_min), (2, 1));
    }

    #[test]
    fn a_session_may_send_more_each_time_that_its_replies_were_small() {
        let mut habits = habits(1 << 20);
        let grown = [0; 8].map(|_| {
            habits.grow(1000);
            habits.requests_max()
        });
        assert_eq!(grown, [16, 32, 64, 128, 256, 512, 1000, 1000]);
        habits.note_large(500_000);
        habits.grow(1000);
        assert_eq!(habits.requests_max(), NEW_REQUESTS_MAX);
    }

    #[test]
    fn where_reads_are_asked_for_whole_nothing_is_learned() {
        let mut habits = habits(usize::MAX);
        habits.note_large(1 << 30);
        habits.grow(1000);
        assert_eq!((habits.requests_max(), habits.keys_min), (1000, usize::MAX));
    }
}
