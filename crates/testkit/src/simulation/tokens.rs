//! cas tokens as one client knows them: of each of its own keys the last that it has read, and what it has changed since.
//!
//! Nobody else writes these keys, so the client can tell whether a `cas` may succeed: not if a change was acknowledged that it had asked
//! for behind the read that gave the token. Where keys have several servers another may decide by then, whose counter may by accident stand
//! where the token says; what distinguishes tokens must prevent that.

use std::collections::BTreeMap;

/// Where the part of a token that names its server begins, where keys have several servers.
const NAME_SHIFT: u32 = 48;

#[derive(Debug, Default)]
pub(super) struct Tokens {
    keys: BTreeMap<Vec<u8>, Known>,
}

/// What is known of one key. Changes are numbered in the order in which they are asked for, from 1.
#[derive(Copy, Clone, Debug, Default)]
struct Known {
    /// The token that was read last, and how many changes had been asked for before that read.
    token: Option<(u64, u64)>,
    asked: u64,
    /// The last change that was acknowledged.
    done: u64,
}

/// What a request has to do with tokens, as of when it was asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Stake {
    /// For each key that it reads, how many changes had been asked for.
    reads: Vec<u64>,
    /// Which change it is.
    change: u64,
    /// The token that it carries, and how many changes had been asked for when that was read, if it was.
    compares: Option<(u64, Option<u64>)>,
}

impl Tokens {
    /// The token of this key that was read last.
    pub(super) fn of(&self, key: &[u8]) -> Option<u64> {
        Some(self.keys.get(key)?.token?.0)
    }

    /// These keys are to be read.
    pub(super) fn reads(&self, keys: &[Vec<u8>]) -> Stake {
        let asked = |key: &Vec<u8>| self.keys.get(key).map_or(0, |known| known.asked);
        Stake { reads: keys.iter().map(asked).collect(), ..Stake::default() }
    }

    /// This key is to be changed; by a `cas` with `token`, if there is one.
    pub(super) fn changes(&mut self, key: &[u8], token: Option<u64>) -> Stake {
        let known = self.keys.entry(key.to_vec()).or_default();
        known.asked += 1;
        let base = |token: u64| known.token.filter(|(read, _)| *read == token).map(|(_, base)| base);
        Stake { reads: Vec::new(), change: known.asked, compares: token.map(|token| (token, base(token))) }
    }

    /// The key that was read as the `place`th of a request came with this token.
    pub(super) fn learn(&mut self, key: &[u8], token: u64, stake: &Stake, place: usize) {
        self.keys.entry(key.to_vec()).or_default().token = Some((token, stake.reads[place]));
    }

    /// A change was answered with `reply`.
    pub(super) fn settle(&mut self, key: &[u8], stake: &Stake, reply: &[u8]) -> Result<(), String> {
        let known = self.keys.entry(key.to_vec()).or_default();
        let is_done = [&b"STORED"[..], b"DELETED", b"HD"].iter().any(|word| reply.starts_with(word))
            || reply[0].is_ascii_digit();
        if !is_done {
            return Ok(());
        }
        if let Some((token, base)) = stake.compares
            && let Some(base) = base.filter(|base| *base < known.done)
        {
            return Err(format!(
                "cas succeeded with token {token}, read after {base} changes, though change {} was acknowledged",
                known.done
            ));
        }
        known.done = stake.change;
        Ok(())
    }
}

impl Stake {
    /// Whether the token names no server: nobody has given it.
    pub(super) fn compares_nameless(&self) -> bool {
        self.compares.is_some_and(|(token, _)| token >> NAME_SHIFT == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cas_fails_behind_a_change_that_the_read_has_not_seen() {
        let mut tokens = Tokens::default();
        let keys = [b"k".to_vec()];
        let first = tokens.changes(b"k", None);
        let read = tokens.reads(&keys);
        tokens.settle(b"k", &first, b"STORED\r\n").expect("it is the first");
        tokens.learn(b"k", 7, &read, 0);
        assert_eq!(tokens.of(b"k"), Some(7));
        let (early, change, late) =
            (tokens.changes(b"k", Some(7)), tokens.changes(b"k", None), tokens.changes(b"k", Some(7)));
        tokens.settle(b"k", &early, b"STORED\r\n").expect("nothing has changed");
        tokens.settle(b"k", &change, b"NOT_FOUND\r\n").expect("nothing was done");
        tokens.settle(b"k", &late, b"EXISTS\r\n").expect("it was refused");
        tokens.settle(b"k", &late, b"STORED\r\n").expect_err("the first cas has changed it");
        let invented = tokens.changes(b"k", Some(9));
        assert!(invented.compares_nameless());
        tokens.settle(b"k", &invented, b"STORED\r\n").expect("with one server numbers can be guessed");
    }
}
