//! What `version` is answered: the lowest of what the servers answer, because clients read there which commands they may use, and a
//! command goes to any of the servers.
//!
//! Servers tell theirs in the first exchange on each connection (`greeting.rs`), whichever loop or worker has it; so all of a process say
//! the same. What a server said last stays while it is away: it may come back. Servers that say none that begins with a number are left out, and before any has said one it is the one of [`Config::version`].
//!
//! [`Config::version`]: crate::Config::version

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// A server's version: what it says, and the numbers by which versions are compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The numbers at its front, as `1`, `6` and `18` of `1.6.18`.
    numbers: Vec<u32>,
    text: String,
}

impl Version {
    /// What the reply `VERSION …` names; `None` if that is not printable, or does not begin with a number.
    pub(crate) fn of_reply(reply: &[u8]) -> Option<Self> {
        let text = reply.strip_prefix(b"VERSION ")?.trim_ascii();
        if !text.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') {
            return None;
        }
        let text = String::from_utf8_lossy(text).into_owned();
        let front = text.split(|it: char| !it.is_ascii_digit() && it != '.').next().unwrap_or_default();
        let numbers: Vec<u32> = front.split('.').map_while(|number| number.parse().ok()).collect();
        (!numbers.is_empty()).then_some(Self { numbers, text })
    }

    /// Whether it is this one or a later one.
    pub(crate) fn is_at_least(&self, numbers: &[u32]) -> bool {
        self.numbers.as_slice() >= numbers
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What servers have reported to all dataplanes of a process, by the servers' names. The lock is taken when a connection was made, and when
/// a client is the first to ask since then.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    by_name: Mutex<HashMap<Box<str>, Version>>,
    /// How many reports there were. Raised after each.
    reports: AtomicU64,
}

/// The lowest version of one table's servers, for as long as no server reports one. Clients may ask for it as fast as they like, and there may
/// be thousands of servers.
#[derive(Debug, Default)]
pub(crate) struct Lowest {
    /// How many reports there had been when it was looked for.
    reports: Option<u64>,
    version: Option<Version>,
}

impl Lowest {
    /// That of the servers that are `named`: those of the table for which it was made.
    pub(crate) fn get<'a>(
        &mut self,
        versions: &Versions,
        named: impl Iterator<Item = &'a str>,
    ) -> Option<&Version> {
        let reports = versions.reports.load(Ordering::Acquire);
        if self.reports != Some(reports) {
            *self = Self { reports: Some(reports), version: versions.lowest(named) };
        }
        self.version.as_ref()
    }
}

impl Versions {
    /// A server has reported its version; `named` are those of the table in force.
    pub(crate) fn note<'a>(
        &self,
        name: &str,
        version: Version,
        named: impl Iterator<Item = &'a str> + Clone,
    ) {
        let mut versions = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        versions.insert(name.into(), version);
        // Reloads leave names behind.
        if versions.len() > 2 * named.clone().count() {
            let mut kept = HashMap::new();
            for name in named {
                if let Some((name, version)) = versions.remove_entry(name) {
                    kept.insert(name, version);
                }
            }
            *versions = kept;
        }
        drop(versions);
        self.reports.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn lowest<'a>(&self, named: impl Iterator<Item = &'a str>) -> Option<Version> {
        let versions = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        named.filter_map(|name| versions.get(name)).min().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Option<Version> {
        Version::of_reply(format!("VERSION {text}\r\n").as_bytes())
    }

    #[test]
    fn versions_are_compared_number_by_number() {
        let ascending = ["1.4.39", "1.5", "1.6.9", "1.6.18", "1.6.18_3", "1.6.21", "1.10.0", "2"];
        for pair in ascending.windows(2) {
            assert!(version(pair[0]).expect("one") < version(pair[1]).expect("one"), "{pair:?}");
        }
        let knows = |text| version(text).expect("one").is_at_least(&[1, 6]);
        assert_eq!(
            ["1.4.39", "1.5.22", "1.6", "1.6.0", "1.6.45", "2"].map(knows),
            [false, false, true, true, true, true]
        );
    }

    #[test]
    fn the_lowest_of_those_that_are_named_counts_and_the_others_are_forgotten() {
        let versions = Versions::default();
        let old = ["a", "b", "c", "d"];
        for (name, said) in old.iter().zip(["1.6.18", "1.4.39", "1.6.9", "1.6.21"]) {
            versions.note(name, version(said).expect("one"), old.into_iter());
        }
        assert_eq!(versions.lowest(old.into_iter()), version("1.4.39"));
        assert_eq!(versions.lowest(["a", "c"].into_iter()), version("1.6.9"));
        assert_eq!(versions.lowest(["e"].into_iter()), None);
        versions.note("a", version("1.6.31").expect("one"), ["a"].into_iter());
        assert_eq!(versions.lowest(old.into_iter()), version("1.6.31"));
    }

    /// A client that sent `version` again and again had all servers looked up each time, under a lock that all loops share.
    #[test]
    fn servers_are_looked_up_once_for_all_who_ask_until_one_reports() {
        let (versions, mut lowest) = (Versions::default(), Lowest::default());
        let ask = |lowest: &mut Lowest, versions: &Versions| {
            let mut count = 0;
            let named = ["a", "b", "c"].into_iter().inspect(|_| count += 1);
            let found = lowest.get(versions, named).cloned();
            (found, count)
        };
        assert_eq!(ask(&mut lowest, &versions), (None, 3));
        assert_eq!(ask(&mut lowest, &versions), (None, 0));
        for text in ["1.6.18", "1.6.9"] {
            versions.note("b", version(text).expect("one"), ["a", "b", "c"].into_iter());
            assert_eq!(ask(&mut lowest, &versions), (version(text), 3));
            assert_eq!(ask(&mut lowest, &versions), (version(text), 0));
        }
    }

    #[test]
    fn what_names_no_version_is_none() {
        for reply in
            ["VERSION mcrouter 1.0\r\n", "VERSION \r\n", "VERSION .5\r\n", "VERSION 1\x07\r\n", "ERROR\r\n"]
        {
            assert_eq!(Version::of_reply(reply.as_bytes()), None, "{reply:?}");
        }
        assert_eq!(version("99999999999.1"), None);
        assert_eq!(version(" 1.6.18 ").expect("one").to_string(), "1.6.18");
    }
}
