//! What came of it, as it is reported.

use std::fmt;

/// What is left behind is gone after this number of seconds.
pub(super) const EXPIRY_S: u32 = 600;

/// How many keys agree, and where some of the others are.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::convert) struct Verdict {
    /// The other proxy, as it was given.
    pub(super) proxy: String,
    pub(super) keys: usize,
    pub(super) agreed: usize,
    /// Keys that are elsewhere, a few of them.
    pub(super) elsewhere: Vec<Elsewhere>,
    /// Keys that may still be there.
    pub(super) left: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Elsewhere {
    pub(super) key: String,
    /// A server that should have it.
    pub(super) expected: String,
    /// Servers that have it.
    pub(super) found: Vec<String>,
}

impl Verdict {
    /// Whether every key is where it should be.
    pub(in crate::convert) const fn agrees(&self) -> bool {
        self.agreed == self.keys
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { proxy, keys, agreed, elsewhere, left } = self;
        // Never 100.0 where one is missing.
        let share = (*agreed as f64 / *keys as f64 * 1000.0).floor() / 10.0;
        write!(
            formatter,
            "--verify {proxy}: {agreed} of {keys} keys ({share:.1} %) are where this configuration has them"
        )?;
        for Elsewhere { key, expected, found } in elsewhere {
            let found = if found.is_empty() {
                "on none of the servers".to_owned()
            } else {
                format!("on {}", found.join(", "))
            };
            write!(formatter, "\n  {key}: not on {expected}, but {found}")?;
        }
        let others = keys - agreed - elsewhere.len();
        if others > 0 {
            write!(formatter, "\n  and {others} more")?;
        }
        if *left > 0 {
            write!(formatter, "\n  {left} keys may be left on the servers, and expire within {EXPIRY_S} s")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_never_rounded_up_to_all() {
        let lost = Elsewhere { key: "k".into(), expected: "a:1".into(), found: vec!["b:1".into()] };
        let verdict =
            |agreed, elsewhere| Verdict { proxy: "old:1".into(), keys: 10_000, agreed, elsewhere, left: 0 };
        assert_eq!(
            verdict(9998, vec![lost]).to_string(),
            "--verify old:1: 9998 of 10000 keys (99.9 %) are where this configuration has them\n  k: not on a:1, but on b:1\n  and 1 more"
        );
        let all = verdict(10_000, Vec::new());
        assert!(all.agrees() && all.to_string().contains("10000 of 10000 keys (100.0 %)"));
    }
}
