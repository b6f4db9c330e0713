//! What a client may believe about a key that nobody else writes.
//!
//! A request that fails may have been carried out or not, so a belief is a set of possible items. Every reply must fit
//! one of them, and leaves those that it fits. What a request does to an item is asked of the model server.
//!
//! Where a key has several replicas this is what its primary may hold. The others may hold something else: nothing after a write that the
//! primary decided, and another item after a write that failed. An acknowledged `set` or `delete` makes all equal. Where nothing is wrong,
//! so does a write that the primary has decided. A read that any replica may have answered must fit what one of them may hold, and excludes
//! nothing.
//!
//! Where another replica may become the one that decides, a miss is not final. The server that decided may have been made to forget the
//! key, or have forgotten it by itself, and the next one not. An acknowledged write ends that.

use std::collections::BTreeSet;

use crate::memcached::{Connection, Memcached};

/// With more possibilities than these nothing is known any more. Only a long series of failures leads there.
const POSSIBILITIES_MAX: usize = 64;

/// Value and flags, or no item.
pub(super) type Item = Option<(Vec<u8>, u32)>;

/// The possible items of one key.
#[derive(Clone, Debug)]
pub(super) struct Belief {
    key: Vec<u8>,
    /// Nothing excludes anything if this is empty.
    possible: BTreeSet<Item>,
    /// What other replicas may hold besides.
    elsewhere: BTreeSet<Item>,
    /// The primary has decided a write, and the others were, or will be, made to forget the key: perhaps after a later write that
    /// was sent before the primary's answer came.
    forgotten_elsewhere: bool,
    servers: Servers,
}

/// What the servers of a key may do.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Servers {
    /// Forget the item at any time.
    pub(super) forgetful: bool,
    /// Be several.
    pub(super) replicated: bool,
    /// Decide one for the other.
    pub(super) fail_over: bool,
    /// Hold the same as the one that decides, once that is acknowledged: nothing keeps them from doing what it did.
    pub(super) agree: bool,
}

/// What a write does to the replicas that do not decide it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Write {
    /// It makes all equal.
    Unconditional,
    /// They do what the primary did, or are made to forget the key.
    DecidedByPrimary,
    /// It changes no item.
    Touch,
    /// They hear nothing of it.
    AtPrimaryAlone,
}

impl Write {
    fn of(request: &[u8]) -> Self {
        let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let has_mode =
            || line.split(|byte| *byte == b' ').skip(3).any(|flag| flag[0] == b'M' && flag != b"MS");
        match line.split(|byte| *byte == b' ').next() {
            Some(b"set" | b"delete") => Self::Unconditional,
            Some(b"ms") if !has_mode() => Self::Unconditional,
            Some(b"touch") => Self::Touch,
            Some(b"mg") => Self::AtPrimaryAlone,
            _ => Self::DecidedByPrimary,
        }
    }
}

impl Belief {
    /// Nobody has stored anything.
    pub(super) fn new(key: &[u8], servers: Servers) -> Self {
        Self {
            key: key.to_vec(),
            possible: BTreeSet::from([None]),
            elsewhere: BTreeSet::new(),
            forgotten_elsewhere: false,
            servers,
        }
    }

    /// The key was read at any of its replicas and `found` was there.
    pub(super) fn learn_item_anywhere(&self, found: &Item) -> Result<(), String> {
        let may_be_gone = found.is_none() && self.servers.forgetful;
        let is_possible = self.possible.contains(found) || self.elsewhere.contains(found);
        if self.possible.is_empty() || may_be_gone || is_possible {
            return Ok(());
        }
        let items = self.possible.union(&self.elsewhere).cloned().collect();
        Err(format!("read {}, possible anywhere are {}", text(found), possibilities(&items)))
    }

    /// The key was read at its primary and `found` was there.
    pub(super) fn learn_item(&mut self, found: Item) -> Result<(), String> {
        if !self.possible.is_empty() && !self.possible.contains(&found) {
            return Err(format!("read {}, possible are {}", text(&found), possibilities(&self.possible)));
        }
        self.stay_elsewhere();
        self.learn_decided([found].into());
        Ok(())
    }

    /// `request` was answered with `reply`.
    pub(super) fn learn_reply(&mut self, request: &[u8], reply: &[u8]) -> Result<(), String> {
        if self.possible.is_empty() {
            return Ok(());
        }
        // Whether somebody else fetches what belongs to an empty item is not followed.
        let plain = reply.strip_suffix(b" Z\r\n").map(|head| [head, b"\r\n"].concat());
        let reply = plain.as_deref().unwrap_or(reply);
        let outcomes = self.possible.iter().map(|item| carry_out(&self.key, item, request));
        let fitting: BTreeSet<_> =
            outcomes.filter(|(_, answer)| answer == reply).map(|(item, _)| item).collect();
        if fitting.is_empty() {
            return Err(format!(
                "{:?} was answered {:?}, which fits none of {}",
                String::from_utf8_lossy(request),
                String::from_utf8_lossy(reply),
                possibilities(&self.possible)
            ));
        }
        let write = Write::of(request);
        let refusals = [&b"NOT_STORED\r\n"[..], b"NOT_FOUND\r\n", b"NS\r\n", b"NF\r\n"];
        let is_decided = write == Write::DecidedByPrimary && !refusals.contains(&reply);
        if write == Write::Unconditional || is_decided && self.servers.agree {
            self.become_equal();
            self.become_one_of(fitting);
        } else if write == Write::AtPrimaryAlone {
            self.stay_elsewhere();
            let mut found = fitting;
            // At the start another may have decided this one, before the primary was connected.
            if self.servers.replicated {
                found.extend(self.elsewhere.iter().cloned());
            }
            self.learn_decided(found);
        } else if is_decided {
            self.become_forgotten_elsewhere();
            self.become_one_of(fitting);
        } else {
            self.stay_elsewhere();
            self.learn_decided(fitting);
        }
        Ok(())
    }

    /// `request` may have been carried out, or not.
    pub(super) fn doubt(&mut self, request: &[u8]) {
        let done = self.possible.iter().map(|item| carry_out(&self.key, item, request).0);
        let possible = done.chain(self.possible.iter().cloned()).collect();
        self.stay_elsewhere();
        self.become_one_of(possible);
        self.stay_elsewhere();
        if Write::of(request) == Write::DecidedByPrimary && !self.servers.agree {
            self.may_be_forgotten_elsewhere();
        }
    }

    /// A `cas` whose token nobody can foresee was answered with `reply`, or failed.
    pub(super) fn learn_cas(&mut self, stored: (Vec<u8>, u32), reply: Option<&[u8]>) -> Result<(), String> {
        if self.possible.is_empty() {
            return Ok(());
        }
        let mut possible = self.possible.clone();
        self.stay_elsewhere();
        match reply {
            None => {
                possible.insert(Some(stored));
                if !self.servers.agree {
                    self.may_be_forgotten_elsewhere();
                }
            }
            Some(b"NOT_FOUND\r\n") => possible.retain(Option::is_none),
            Some(b"EXISTS\r\n") => possible.retain(Option::is_some),
            Some(b"STORED\r\n") if possible.iter().any(Option::is_some) => {
                possible = [Some(stored)].into();
                if self.servers.agree {
                    self.become_equal();
                } else {
                    self.become_forgotten_elsewhere();
                }
            }
            Some(_) => possible.clear(),
        }
        if possible.is_empty() {
            let reply = reply.map(String::from_utf8_lossy);
            return Err(format!(
                "cas was answered {reply:?}, possible are {}",
                possibilities(&self.possible)
            ));
        }
        self.learn_decided(possible);
        Ok(())
    }

    /// The server that decides holds one of these, as another may not that decides later.
    fn learn_decided(&mut self, mut found: BTreeSet<Item>) {
        let is_miss = found.iter().all(Option::is_none);
        if is_miss && self.servers.fail_over {
            found.append(&mut self.possible);
        }
        self.become_one_of(found);
    }

    fn become_one_of(&mut self, mut possible: BTreeSet<Item>) {
        if self.servers.forgetful && !possible.is_empty() {
            possible.insert(None);
        }
        if possible.len() > POSSIBILITIES_MAX {
            possible.clear();
        }
        self.possible = possible;
    }

    /// All replicas hold the same, but for those that are still to be made to forget it.
    fn become_equal(&mut self) {
        self.elsewhere.clear();
        if self.forgotten_elsewhere {
            self.elsewhere.insert(None);
        }
    }

    /// The others have confirmed that they hold nothing.
    fn become_forgotten_elsewhere(&mut self) {
        self.elsewhere.clear();
        self.may_be_forgotten_elsewhere();
    }

    fn may_be_forgotten_elsewhere(&mut self) {
        self.forgotten_elsewhere = true;
        self.elsewhere.insert(None);
    }

    /// What was possible stays so at the others, whatever is learned of the primary.
    fn stay_elsewhere(&mut self) {
        self.elsewhere.extend(self.possible.iter().cloned());
        if self.elsewhere.len() > POSSIBILITIES_MAX {
            self.possible.clear();
        }
    }
}

fn possibilities(items: &BTreeSet<Item>) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn text(item: &Item) -> String {
    match item {
        Some((value, flags)) => format!("{:?} with flags {flags}", String::from_utf8_lossy(value)),
        None => "nothing".to_owned(),
    }
}

/// What `request` makes of `item`, and what it is answered.
fn carry_out(key: &[u8], item: &Item, request: &[u8]) -> (Item, Vec<u8>) {
    let (mut server, mut answer) = (Memcached::default(), Vec::new());
    if let Some((value, flags)) = item {
        server.put(key, value.clone(), *flags);
    }
    server.handle_bytes(&mut Connection::default(), request, &mut answer);
    (server.item(key).map(|item| (item.value.clone(), item.flags)), answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(value: &str) -> Item {
        Some((value.as_bytes().to_vec(), 0))
    }

    #[test]
    fn a_failed_write_leaves_two_possibilities_and_a_read_decides() {
        let mut belief = Belief::new(b"a", Servers::default());
        belief.learn_reply(b"set a 0 0 1\r\nx\r\n", b"STORED\r\n").unwrap();
        belief.doubt(b"append a 0 0 1\r\ny\r\n");
        assert_eq!(belief.possible, BTreeSet::from([item("x"), item("xy")]));
        assert!(belief.clone().learn_item(item("y")).is_err());
        assert!(belief.clone().learn_item(None).is_err());
        belief.learn_item(item("xy")).unwrap();
        assert!(belief.learn_item(item("x")).is_err());
    }

    #[test]
    fn a_reply_that_fits_nothing_is_refused() {
        let mut belief = Belief::new(b"a", Servers::default());
        assert!(belief.learn_reply(b"delete a\r\n", b"DELETED\r\n").is_err());
        assert!(belief.learn_cas((vec![], 0), Some(b"EXISTS\r\n")).is_err());
        assert!(belief.learn_cas((vec![], 0), Some(b"ODD\r\n")).is_err());
    }

    #[test]
    fn other_replicas_may_hold_what_the_primary_does_not() {
        let mut belief = Belief::new(b"a", Servers::default());
        belief.learn_reply(b"set a 0 0 1\r\nx\r\n", b"STORED\r\n").unwrap();
        assert!(belief.learn_item_anywhere(&None).is_err());
        belief.doubt(b"set a 0 0 1\r\ny\r\n");
        belief.learn_item(item("y")).unwrap();
        belief.learn_item_anywhere(&item("x")).unwrap();
        belief.learn_reply(b"set a 0 0 1\r\nz\r\n", b"STORED\r\n").unwrap();
        assert!(belief.learn_item_anywhere(&item("y")).is_err());
        belief.learn_reply(b"append a 0 0 1\r\n!\r\n", b"STORED\r\n").unwrap();
        belief.learn_item_anywhere(&None).unwrap();
        assert!(belief.learn_item_anywhere(&item("z")).is_err());
    }

    #[test]
    fn a_miss_is_final_where_one_server_decides() {
        for fail_over in [false, true] {
            let mut belief = Belief::new(b"a", Servers { fail_over, ..Servers::default() });
            belief.doubt(b"set a 0 0 1\r\n7\r\n");
            belief.learn_reply(b"decr a 1\r\n", b"NOT_FOUND\r\n").unwrap();
            assert_eq!(belief.clone().learn_item(item("7")).is_ok(), fail_over);
            belief.learn_reply(b"delete a\r\n", b"NOT_FOUND\r\n").unwrap();
            assert!(belief.learn_item(item("7")).is_err());
        }
    }

    #[test]
    fn a_forgetful_server_may_always_have_nothing() {
        let mut belief = Belief::new(b"a", Servers { forgetful: true, ..Servers::default() });
        belief.learn_reply(b"set a 0 0 1\r\nx\r\n", b"STORED\r\n").unwrap();
        belief.learn_item(None).unwrap();
        assert!(belief.learn_item(item("x")).is_err());
    }
}
