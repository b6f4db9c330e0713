//! Makes a failing stream small: fewer cuts, fewer phases, fewer lines, fewer bytes, as long as it fails.

use super::stream::{Phase, Stream};

/// How often a stream is tried at most.
const ATTEMPTS_MAX: usize = 3_000;

/// The smallest stream that was found for which `fails` still says so.
pub fn minimise(stream: &Stream, mut fails: impl FnMut(&Stream) -> bool) -> Stream {
    let mut attempts = 0;
    let mut fails = move |stream: &Stream| {
        attempts += 1;
        attempts <= ATTEMPTS_MAX && fails(stream)
    };
    let mut smallest = stream.clone();
    smallest.phases = reduce(smallest.phases, |phases| fails(&Stream { phases: phases.to_vec() }));
    for index in 0..smallest.phases.len() {
        let Phase { bytes, cuts } = smallest.phases[index].clone();
        let mut with = |bytes: Vec<u8>, cuts: Vec<usize>| {
            let mut shorter = smallest.clone();
            shorter.phases[index] = Phase { bytes, cuts };
            fails(&shorter)
        };
        let cuts = reduce(cuts, |cuts| with(bytes.clone(), cuts.to_vec()));
        let lines = bytes.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
        let lines = reduce(lines, |lines| with(lines.concat(), cuts.clone()));
        let bytes = reduce(lines.concat(), |bytes| with(bytes.to_vec(), cuts.clone()));
        smallest.phases[index] = Phase { bytes, cuts };
    }
    smallest
}

/// Drops ever smaller runs of items, until no single one can be dropped.
pub(super) fn reduce<T: Clone>(mut items: Vec<T>, mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut size = items.len();
    while size > 0 && !items.is_empty() {
        let mut dropped = false;
        let mut at = 0;
        while at < items.len() {
            let end = items.len().min(at + size);
            let shorter = [&items[..at], &items[end..]].concat();
            if fails(&shorter) {
                items = shorter;
                dropped = true;
            } else {
                at = end;
            }
        }
        size = if size == 1 && dropped { 1 } else { size / 2 };
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_matter_is_dropped() {
        let stream = Stream {
            phases: vec![
                Phase { bytes: b"get a\r\nset b 0 0 1\r\nx\r\n".to_vec(), cuts: vec![3, 5] },
                Phase { bytes: b"get bad\r\nget c\r\n".to_vec(), cuts: vec![1] },
            ],
        };
        let smallest = minimise(&stream, |stream| {
            stream.phases.iter().any(|phase| phase.bytes.windows(3).any(|word| word == b"bad"))
        });
        assert_eq!(smallest, Stream::whole(b"bad"));
    }

    #[test]
    fn cuts_that_matter_stay() {
        let stream = Stream { phases: vec![Phase { bytes: b"abcdef".to_vec(), cuts: vec![1, 2, 4] }] };
        let smallest = minimise(&stream, |stream| {
            stream.phases.iter().any(|phase| phase.cuts.contains(&2) && phase.bytes.len() > 3)
        });
        assert_eq!(smallest.phases[0].cuts, [2]);
        assert_eq!(smallest.phases[0].bytes.len(), 4);
    }
}
