//! Which keys are asked for most now.
//!
//! [`HotKeys`] chooses requests at random, one of many, and notes the keys of those. It learns when a request is taken into service, and what values
//! came back. It answers with [`TopKeys`], over the time from the beginning of the window before to now:
//!
//! ```text
//!          30 s          30 s
//!   ┄┼─────────────┼────────┬─────┄      when a window is over, the one before it is forgotten
//!    ╰─── before ──╯╰ open ─╯now
//! ```
//!
//! A request that is not chosen costs a countdown.

pub(crate) mod sketch;
pub(crate) mod top_keys;

use crate::{
    config::Config,
    meter::gaps::Gaps,
    meter::hot_keys::sketch::{EntryId, Sketch, Use},
    meter::hot_keys::top_keys::TopKeys,
};
use weir_protocol::{meta_value_len, values};
use weir_timing::Instant;

/// What has to be noted of the reply to a request that was chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Watched {
    #[default]
    Nothing,
    /// The values, which name their keys.
    Values,
    /// One value, which does not: of the key that had this entry.
    Entry(EntryId),
}

/// The requests that are looked at, and what was seen.
#[derive(Debug)]
pub(crate) struct HotKeys {
    /// Requests until the next one that is looked at, itself counted.
    countdown: u64,
    gaps: Gaps,
    one_in: u64,
    started: Instant,
    /// The number of the open window.
    window: u64,
    open: Sketch,
    before: Sketch,
}

/// Of no request are more keys noted: one costs about 100 ns, and a line of 4 MiB has more than a million.
const KEYS_NOTED_MAX: usize = 512;

/// A key that is noted stands for at most this many. In a line of a million distinct keys each would seem to be named thousands of times.
const STANDS_FOR_MAX: usize = 16;

/// How long a window is, in nanoseconds: long enough for a thousand requests that are looked at where a proxy is busy, and short enough for
/// what is hot now.
const WINDOW_NS: u64 = 30_000_000_000;

impl HotKeys {
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        let (entries, one_in) = (config.hot_keys, config.hot_keys_one_in.max(1));
        let mut gaps = Gaps::new(1.0 / one_in as f64, config.seed);
        Self {
            // Without entries it is never reached.
            countdown: if entries == 0 { u64::MAX } else { gaps.next() },
            gaps,
            one_in: if entries == 0 { 0 } else { one_in },
            started: now,
            window: now.as_nanos() / WINDOW_NS,
            open: Sketch::new(entries),
            before: Sketch::new(entries),
        }
    }

    /// Whether this request is looked at: to be asked once for each.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        self.countdown = self.countdown.wrapping_sub(1);
        self.countdown == 0
    }

    /// A request that is looked at came in at `now`. [`HotKeys::note`] says which keys it named.
    pub(crate) fn begin_request(&mut self, now: Instant) {
        self.countdown = self.gaps.next();
        let window = now.as_nanos() / WINDOW_NS;
        if window > self.window {
            std::mem::swap(&mut self.open, &mut self.before);
            self.open.begin(self.before.last_id());
            if window > self.window + 1 {
                self.before.begin(self.open.last_id());
            }
            self.window = window;
        }
    }

    /// That request has named this key.
    pub(crate) fn note(&mut self, key: &[u8], used: Use) -> Option<EntryId> {
        self.open.note(key, used)
    }

    /// That request reads this many keys. Where there are very many some are noted, from a random one on at equal distances. Each stands for
    /// those between it and the next, so counts are right on average; what is beyond that is counted for no key.
    pub(crate) fn note_reads<'a>(&mut self, mut keys: impl Iterator<Item = &'a [u8]>, count: usize) {
        if count <= KEYS_NOTED_MAX {
            keys.for_each(|key| _ = self.open.note(key, Use::Read));
            return;
        }
        let distance = count.div_ceil(KEYS_NOTED_MAX);
        let times = distance.min(STANDS_FOR_MAX);
        let mut counted = 0;
        let mut next = keys.nth(self.gaps.below(distance));
        while let Some(key) = next {
            self.open.note_reads(key, times as u64);
            counted += times;
            next = keys.nth(distance - 1);
        }
        self.open.leave_out(count.saturating_sub(counted) as u64);
    }

    /// What has come back of a request that is watched: a reply, or a part of one.
    pub(crate) fn note_reply(&mut self, watched: Watched, reply: &[u8]) {
        match watched {
            Watched::Nothing => {}
            Watched::Values => values(reply).for_each(|(key, bytes)| self.open.add_bytes(key, bytes)),
            Watched::Entry(id) => {
                if let Some(bytes) = meta_value_len(reply)
                    && !self.open.add_bytes_to(id, bytes)
                {
                    self.before.add_bytes_to(id, bytes);
                }
            }
        }
    }

    /// The keys that are asked for most at `now`.
    pub(crate) fn top(&self, now: Instant) -> TopKeys {
        let window = (now.as_nanos() / WINDOW_NS).max(self.window);
        let since = Instant::from_nanos((window * WINDOW_NS).saturating_sub(WINDOW_NS)).max(self.started);
        let mut top = TopKeys::new(since, now, self.one_in);
        // Nothing has come since then that would have closed it.
        if window == self.window {
            top.add(&self.before);
        }
        if window <= self.window + 1 {
            top.add(&self.open);
        }
        top
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(second: u64) -> Instant {
        Instant::from_nanos(second * SECOND)
    }

    fn hot_keys(one_in: u64) -> HotKeys {
        HotKeys::new(&Config { hot_keys: 4, hot_keys_one_in: one_in, ..Config::default() }, at(10))
    }

    /// Asks for this key in this second, if it is looked at.
    fn ask(hot: &mut HotKeys, key: &str, second: u64) -> Option<EntryId> {
        if !hot.is_due() {
            return None;
        }
        hot.begin_request(at(second));
        hot.note(key.as_bytes(), Use::Read)
    }

    /// The keys and how often each was read, over which seconds.
    fn check(hot: &HotKeys, second: u64, since: u64, expected: &[(&str, u64)]) {
        let top = hot.top(at(second));
        let said: Vec<_> = top
            .hottest(9)
            .into_iter()
            .map(|(key, it)| (String::from_utf8_lossy(key).into_owned(), it.reads))
            .collect();
        let expected: Vec<_> = expected.iter().map(|(key, reads)| ((*key).to_owned(), *reads)).collect();
        assert_eq!((said, top.since(), top.until()), (expected, at(since), at(second)));
    }

    #[test]
    fn counts_are_those_of_the_open_window_and_of_the_one_before() {
        let mut hot = hot_keys(1);
        ask(&mut hot, "a", 11);
        ask(&mut hot, "a", 29);
        check(&hot, 29, 10, &[("a", 2)]);
        // Nothing has closed the window; its time is over all the same.
        check(&hot, 31, 10, &[("a", 2)]);
        check(&hot, 60, 30, &[]);
        ask(&mut hot, "b", 31);
        check(&hot, 59, 10, &[("a", 2), ("b", 1)]);
        ask(&mut hot, "b", 60);
        check(&hot, 61, 30, &[("b", 2)]);
        ask(&mut hot, "c", 300);
        check(&hot, 300, 270, &[("c", 1)]);
        // Time that goes back closes nothing.
        ask(&mut hot, "c", 299);
        check(&hot, 300, 270, &[("c", 2)]);
    }

    #[test]
    fn bytes_of_a_reply_that_comes_later_belong_to_the_key_that_was_asked_for() {
        let mut hot = hot_keys(1);
        let asked = ask(&mut hot, "a", 29).map(Watched::Entry).unwrap();
        ask(&mut hot, "b", 31);
        hot.note_reply(asked, b"VA 5 f0\r\nhello\r\n");
        hot.note_reply(asked, b"EN\r\n");
        hot.note_reply(Watched::Values, b"VALUE b 0 3\r\nabc\r\nVALUE c 0 9\r\n123456789\r\nEND\r\n");
        hot.note_reply(Watched::Nothing, b"VALUE b 0 3\r\nabc\r\nEND\r\n");
        let top = hot.top(at(32));
        let bytes: Vec<_> = top.hottest(9).into_iter().map(|(key, it)| (key, it.bytes)).collect();
        assert_eq!(bytes, [(b"a".as_slice(), 5), (b"b", 3)]);
    }

    #[test]
    fn one_of_many_is_looked_at_or_none() {
        let mut hot = hot_keys(64);
        let looked_at = (0..64_000).filter(|_| ask(&mut hot, "a", 10).is_some()).count();
        // Six standard deviations around 1,000.
        assert!((810..1_190).contains(&looked_at), "{looked_at}");
        let top = hot.top(at(10));
        assert_eq!((top.looked_at(), top.one_in()), (looked_at as u64, 64));
        let mut off = HotKeys::new(&Config { hot_keys: 0, ..Config::default() }, at(10));
        assert!((0..1_000).all(|_| ask(&mut off, "a", 10).is_none()));
        assert_eq!((off.top(at(10)).one_in(), off.top(at(10)).hottest(9).len()), (0, 0));
    }
}
