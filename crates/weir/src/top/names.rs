//! Names of servers in a column that is too narrow for them: what they differ in is kept, and what all have in common goes first.
//!
//! ```text
//!   cache-01.eu.example.org:11211        cache-01…
//!   cache-02.eu.example.org:11211   ─▶   cache-02…      the common end goes first, then the common front, then the middle of each
//! ```

/// The names, none longer than `width`.
pub(super) fn shortened<T: AsRef<str>>(names: &[T], width: usize) -> Vec<String> {
    let all: Vec<Vec<char>> = names.iter().map(|name| name.as_ref().chars().collect()).collect();
    let longest = all.iter().map(Vec::len).max().unwrap_or(0);
    if longest <= width {
        return names.iter().map(|name| name.as_ref().to_owned()).collect();
    }
    let (front, end) = common(&all);
    // One more than what is taken away, because its place takes a mark.
    let end_cut = (longest - width + 1).min(end);
    let without_end: Vec<Vec<char>> =
        all.iter().map(|name| cut(name, name.len() - end_cut..name.len())).collect();
    let longest = without_end.iter().map(Vec::len).max().unwrap_or(0);
    let front_cut = if longest > width { (longest - width + 1).min(front) } else { 0 };
    without_end
        .iter()
        .map(|name| cut(name, 0..front_cut))
        .map(|name| if name.len() > width { middle_cut(&name, width) } else { name })
        .map(String::from_iter)
        .collect()
}

/// How many characters all have in common at the front, and behind that at the end. Words are not torn: `cache-0` and `cache-1` have a
/// hyphen in common and no digit, `10.0.0.11` and `10.0.0.12` two dots.
fn common(names: &[Vec<char>]) -> (usize, usize) {
    let Some((first, others)) = names.split_first() else { return (0, 0) };
    if others.is_empty() {
        return (0, 0);
    }
    let shortest = names.iter().map(Vec::len).min().unwrap_or(0);
    let same = |at: &dyn Fn(&[char]) -> char| others.iter().all(|other| at(other) == at(first));
    let mut front = (0..shortest).take_while(|&place| same(&|name| name[place])).count();
    while front > 0 && first[front - 1].is_alphanumeric() {
        front -= 1;
    }
    let mut end =
        (0..shortest - front).take_while(|&place| same(&|name| name[name.len() - 1 - place])).count();
    while end > 0 && first[first.len() - end].is_alphanumeric() {
        end -= 1;
    }
    (front, end)
}

const MARK: char = '…';

/// A mark in the place of these characters.
fn cut(name: &[char], range: std::ops::Range<usize>) -> Vec<char> {
    if range.is_empty() {
        return name.to_vec();
    }
    name[..range.start].iter().chain(&[MARK]).chain(&name[range.end..]).copied().collect()
}

fn middle_cut(name: &[char], width: usize) -> Vec<char> {
    let kept = width.saturating_sub(1);
    let front = kept.div_ceil(2);
    cut(name, front..name.len() - (kept - front))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn what_fits_stays_as_it_is() {
        assert_eq!(
            shortened(&["10.0.0.1:11211", "10.0.0.2:11211"], 14),
            ["10.0.0.1:11211", "10.0.0.2:11211"]
        );
        assert!(shortened::<&str>(&[], 5).is_empty());
    }

    #[test]
    fn the_common_end_goes_first_and_then_the_common_front() {
        let names = ["cache-1.eu.example.org:11211", "cache-2.eu.example.org:11211"];
        assert_eq!(shortened(&names, 20), ["cache-1.eu.example.…", "cache-2.eu.example.…"]);
        assert_eq!(shortened(&names, 8), ["cache-1…", "cache-2…"]);
        assert_eq!(shortened(&names, 6), ["…he-1…", "…he-2…"]);
    }

    #[test]
    fn a_single_name_is_cut_in_its_middle() {
        assert_eq!(shortened(&["cache-1.eu.example.org:11211"], 11), ["cache…11211"]);
    }

    #[test]
    fn names_that_differ_stay_different_and_fit() {
        let hosts: Vec<String> = (0..30).map(|it| format!("10.20.{}.{}:11211", it / 10, 100 + it)).collect();
        let sockets: Vec<String> =
            (0..30).map(|it| format!("/var/run/memcached/instance-{it}.sock")).collect();
        let ports: Vec<String> =
            (0..30).map(|it| format!("memcached.cache.svc.cluster.local:112{it:02}")).collect();
        for names in [hosts, sockets, ports] {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            for width in 8..40 {
                let short = shortened(&names, width);
                assert!(short.iter().all(|name| name.chars().count() <= width), "{width}: {short:?}");
                assert_eq!(short.iter().collect::<BTreeSet<_>>().len(), names.len(), "{width}: {short:?}");
            }
        }
    }
}
