//! Which bytes towards a server stand in one record.
//!
//! A server that reads through OpenSSL asks for as many bytes as it has room for, and OpenSSL keeps what is left of the record. The kernel
//! does not announce that. memcached before 1.6.39 does not ask OpenSSL either: it reads the rest of a value, no more, and then waits for
//! the network, although the next request came in the same record. So a record that begins within a message ends with it at the latest.
//!
//! ```text
//!   messages    get a │ set b (40,000 bytes)                │ get c │ mn
//!   records     get a │ 16 KiB │ 16 KiB │ the rest of set b │ get c   mn
//! ```
//!
//! A record that begins with a message is read whole: memcached has as much room for requests as a record may have bytes, and none of it is
//! taken, because every record before ended with a message.

use std::iter::Peekable;

/// The most bytes of a record (RFC 8446, 5.1), and what memcached reads at once.
pub(super) const RECORD_BYTES_MAX: usize = 16 << 10;

/// Messages that are cut into records. Made for one write.
pub(super) struct Records<'a> {
    bytes: usize,
    ends: Peekable<&'a mut dyn Iterator<Item = usize>>,
    is_within: bool,
}

impl<'a> Records<'a> {
    /// Of this many bytes, in which messages end there, in their order; the last ends with the bytes. `is_within`: the first was begun by the
    /// record before.
    pub(super) fn new(bytes: usize, ends: &'a mut dyn Iterator<Item = usize>, is_within: bool) -> Self {
        Self { bytes, ends: ends.peekable(), is_within }
    }

    /// Where the record ends that begins at `from`, which is where the one before ended.
    pub(super) fn end_from(&mut self, from: usize) -> usize {
        let room = self.bytes.min(from + RECORD_BYTES_MAX);
        let first = self.ends.peek().copied().unwrap_or(self.bytes);
        let is_part = self.is_within || first > room;
        let mut end = first.min(room);
        while let Some(whole) = self.ends.next_if(|other| *other <= if is_part { end } else { room }) {
            end = whole;
        }
        self.is_within = end < first;
        end
    }

    /// Whether the last record ended within a message.
    pub(super) const fn is_within(&self) -> bool {
        self.is_within
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::iter;

    fn cut(bytes: usize, ends: &[usize], is_within: bool) -> Vec<usize> {
        let mut ends = ends.iter().copied();
        let mut records = Records::new(bytes, &mut ends, is_within);
        let next = |from: &usize| (*from < bytes).then(|| records.end_from(*from));
        iter::successors(Some(0), next).skip(1).collect()
    }

    #[test]
    fn what_fits_a_record_stands_in_one_and_a_longer_message_has_its_own() {
        const MAX: usize = RECORD_BYTES_MAX;
        assert_eq!(cut(40, &[10, 20, 40], false), [40]);
        assert_eq!(cut(40, &[], false), [40], "a greeting");
        assert_eq!(cut(MAX + 10, &[10, MAX + 5, MAX + 10], false), [10, MAX + 10]);
        let long = [10, 2 * MAX + 20, 3 * MAX];
        assert_eq!(cut(3 * MAX, &long, false), [10, MAX + 10, 2 * MAX + 10, 2 * MAX + 20, 3 * MAX]);
        assert_eq!(cut(20, &[20, 30], false), [20], "what follows is not to be written now");
        assert_eq!(cut(40, &[10, 20, 40], true), [10, 40], "an earlier write has begun it");
        assert_eq!(cut(MAX + 20, &[MAX + 10, MAX + 20], true), [MAX, MAX + 10, MAX + 20]);
    }

    /// How many bytes memcached leaves in OpenSSL of records that end at `cuts` when it waits for the network next. It reads a buffer full
    /// where a message begins, and no more than the rest of a message that it has begun.
    fn left_unread(cuts: &[usize], ends: &[usize]) -> usize {
        let froms = iter::once(0).chain(cuts.iter().copied());
        let left = |(from, to): (usize, usize)| {
            let begins = from == 0 || ends.contains(&from);
            let message = ends.iter().copied().find(|end| *end > from).expect("a record has bytes");
            let read = if begins { from + RECORD_BYTES_MAX } else { message };
            to.saturating_sub(read)
        };
        froms.zip(cuts.iter().copied()).map(left).sum()
    }

    proptest! {
        #[test]
        fn nothing_of_a_record_is_left_unread_whatever_the_kernel_took_before(
            sizes in proptest::collection::vec(prop_oneof![1..200_usize, 1..40_000_usize, 16_300..16_400_usize], 1..40),
            written in 1..12_usize,
        ) {
            let sum = |end: &mut usize, size: &usize| { *end += size; Some(*end) };
            let ends: Vec<_> = sizes.iter().scan(0, sum).collect();
            let bytes = *ends.last().expect("there is one");
            let cuts = cut(bytes, &ends, false);
            prop_assert_eq!(cuts.last(), Some(&bytes));
            let froms = iter::once(&0).chain(&cuts);
            prop_assert!(froms.zip(&cuts).all(|(from, to)| from < to && to - from <= RECORD_BYTES_MAX));
            prop_assert_eq!(left_unread(&cuts, &ends), 0);
            // What is written later is cut as it would have been at once.
            if let Some(&from) = cuts.get(written) {
                let rest: Vec<_> = ends.iter().filter(|end| **end > from).map(|end| end - from).collect();
                let later: Vec<_> = cut(bytes - from, &rest, !ends.contains(&from)).iter().map(|to| to + from).collect();
                prop_assert_eq!(&later, &cuts[written + 1..]);
            }
        }
    }
}
