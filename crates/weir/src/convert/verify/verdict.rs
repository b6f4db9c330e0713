//! What came of it, as it is reported.

use std::fmt;

/// What is left behind is gone after this number of seconds.
pub(super) const EXPIRY_S: u32 = 600;

/// How many keys agree, and where some of the others are.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::convert) struct Verdict {
    /// The other proxy, as it was given.
    pub(super) proxy: String,
    /// Pools that the keys belong to.
    pub(super) pools: Vec<String>,
    /// The file's other pools: nobody was asked about them.
    pub(super) unverified: Vec<String>,
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
        let Self { proxy, pools, unverified, keys, agreed, elsewhere, left } = self;
        let (pool, these) =
            if pools.len() == 1 { ("pool", "this pool's") } else { ("pools", "these pools'") };
        // Never 100.0 where one is missing.
        let share = (*agreed as f64 / *keys as f64 * 1000.0).floor() / 10.0;
        write!(
            formatter,
            "--verify {proxy}: {pool} {}: {agreed} of {keys} keys ({share:.1} %) are where this configuration has them",
            pools.join(", ")
        )?;
        for Elsewhere { key, expected, found } in elsewhere {
            let found = if found.is_empty() {
                format!("on none of {these} servers")
            } else {
                format!("on {}", found.join(", "))
            };
            write!(formatter, "\n  {key}: not on {expected}, but {found}")?;
        }
        let others = keys - agreed - elsewhere.len();
        if others > 0 {
            write!(formatter, "\n  and {others} more")?;
        }
        // Keys that are on other servers of the pool are placed otherwise; these went to servers of another pool.
        if !elsewhere.is_empty() && elsewhere.iter().all(|it| it.found.is_empty()) {
            write!(
                formatter,
                "\n  none was found on any of {these} servers: is it the {pool} that {proxy} serves?"
            )?;
        }
        if *left > 0 {
            write!(formatter, "\n  {left} keys may be left on the servers, and expire within {EXPIRY_S} s")?;
        }
        if !unverified.is_empty() {
            write!(formatter, "\n  not verified: {}", unverified.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(agreed: usize, elsewhere: Vec<Elsewhere>) -> Verdict {
        let (proxy, pools) = ("old:1".into(), vec!["main".into()]);
        Verdict { proxy, pools, unverified: Vec::new(), keys: 10_000, agreed, elsewhere, left: 0 }
    }

    fn elsewhere(found: &[&str]) -> Elsewhere {
        let found = found.iter().map(|server| (*server).to_owned()).collect();
        Elsewhere { key: "k".into(), expected: "a:1".into(), found }
    }

    #[test]
    fn a_share_is_never_rounded_up_to_all() {
        assert_eq!(
            verdict(9998, vec![elsewhere(&["b:1"])]).to_string(),
            "--verify old:1: pool main: 9998 of 10000 keys (99.9 %) are where this configuration has them\n  k: not on a:1, but on b:1\n  and 1 more"
        );
        let all = verdict(10_000, Vec::new());
        assert!(all.agrees() && all.to_string().contains("10000 of 10000 keys (100.0 %)"));
    }

    #[test]
    fn pools_that_nobody_was_asked_about_are_named() {
        let mut all = verdict(10_000, Vec::new());
        assert!(!all.to_string().contains("not verified"));
        all.unverified = vec!["pages".into(), "users".into()];
        assert!(all.to_string().ends_with(" has them\n  not verified: pages, users"), "{all}");
    }

    /// The port of another pool: each key looks lost, and is not.
    #[test]
    fn keys_that_are_on_no_server_of_the_pool_ask_whether_it_is_the_right_one() {
        let text = verdict(0, vec![elsewhere(&[]), elsewhere(&[])]).to_string();
        let advice = "\n  none was found on any of this pool's servers: is it the pool that old:1 serves?";
        assert!(text.contains("\n  k: not on a:1, but on none of this pool's servers\n"), "{text}");
        assert!(text.ends_with(advice), "{text}");
        let text = verdict(0, vec![elsewhere(&[]), elsewhere(&["b:1"])]).to_string();
        assert!(!text.contains("is it the pool"), "{text}");
    }
}
