//! What a client may believe about a key that nobody else writes.
//!
//! A request that fails may have been carried out or not, so a belief is a set of possible items. Every reply must fit
//! one of them, and leaves those that it fits. What a request does to an item is asked of the model server.

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
    /// The server may forget the item at any time.
    forgetful: bool,
}

impl Belief {
    /// Nobody has stored anything.
    pub(super) fn new(key: &[u8], forgetful: bool) -> Self {
        Self { key: key.to_vec(), possible: BTreeSet::from([None]), forgetful }
    }

    /// The key was read and `found` was there.
    pub(super) fn learn_item(&mut self, found: Item) -> Result<(), String> {
        if !self.possible.is_empty() && !self.possible.contains(&found) {
            let found = found.map(|(value, flags)| (String::from_utf8_lossy(&value).into_owned(), flags));
            return Err(format!("read {found:?}, possible are {}", self.possibilities()));
        }
        self.become_one_of([found].into());
        Ok(())
    }

    /// `request` was answered with `reply`.
    pub(super) fn learn_reply(&mut self, request: &[u8], reply: &[u8]) -> Result<(), String> {
        if self.possible.is_empty() {
            return Ok(());
        }
        let outcomes = self.possible.iter().map(|item| carry_out(&self.key, item, request));
        let fitting: BTreeSet<_> =
            outcomes.filter(|(_, answer)| answer == reply).map(|(item, _)| item).collect();
        if fitting.is_empty() {
            return Err(format!(
                "{:?} was answered {:?}, which fits none of {}",
                String::from_utf8_lossy(request),
                String::from_utf8_lossy(reply),
                self.possibilities()
            ));
        }
        self.become_one_of(fitting);
        Ok(())
    }

    /// A copy of the key: the write that its primary decided is on its way to it, or it is told to forget the key, and a
    /// copy may be told so a while later than another write has reached it.
    pub(super) fn learn_copy(&mut self, request: Option<&[u8]>) {
        self.forgetful = true;
        let possible = match request {
            Some(request) => self.possible.iter().map(|item| carry_out(&self.key, item, request).0).collect(),
            None if self.possible.is_empty() => BTreeSet::new(),
            None => BTreeSet::from([None]),
        };
        self.become_one_of(possible);
    }

    /// A copy of the key, of which nobody knows whether anything was heard there of `request`.
    pub(super) fn doubt_copy(&mut self, request: &[u8]) {
        self.forgetful = true;
        self.doubt(request);
    }

    /// `request` may have been carried out, or not.
    pub(super) fn doubt(&mut self, request: &[u8]) {
        let done = self.possible.iter().map(|item| carry_out(&self.key, item, request).0);
        let possible = done.chain(self.possible.iter().cloned()).collect();
        self.become_one_of(possible);
    }

    /// A `cas` whose token nobody can foresee was answered with `reply`, or failed.
    pub(super) fn learn_cas(&mut self, stored: (Vec<u8>, u32), reply: Option<&[u8]>) -> Result<(), String> {
        if self.possible.is_empty() {
            return Ok(());
        }
        let mut possible = self.possible.clone();
        match reply {
            None => {
                possible.insert(Some(stored));
            }
            Some(b"NOT_FOUND\r\n") => possible.retain(Option::is_none),
            Some(b"EXISTS\r\n") => possible.retain(Option::is_some),
            Some(b"STORED\r\n") if possible.iter().any(Option::is_some) => possible = [Some(stored)].into(),
            Some(_) => possible.clear(),
        }
        if possible.is_empty() {
            let reply = reply.map(String::from_utf8_lossy);
            return Err(format!("cas was answered {reply:?}, possible are {}", self.possibilities()));
        }
        self.become_one_of(possible);
        Ok(())
    }

    fn become_one_of(&mut self, mut possible: BTreeSet<Item>) {
        if self.forgetful && !possible.is_empty() {
            possible.insert(None);
        }
        if possible.len() > POSSIBILITIES_MAX {
            possible.clear();
        }
        self.possible = possible;
    }

    fn possibilities(&self) -> String {
        let items = self.possible.iter().map(|item| match item {
            Some((value, flags)) => format!("{:?} with flags {flags}", String::from_utf8_lossy(value)),
            None => "nothing".to_owned(),
        });
        items.collect::<Vec<_>>().join(", ")
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
        let mut belief = Belief::new(b"a", false);
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
        let mut belief = Belief::new(b"a", false);
        assert!(belief.learn_reply(b"delete a\r\n", b"DELETED\r\n").is_err());
        assert!(belief.learn_cas((vec![], 0), Some(b"EXISTS\r\n")).is_err());
        assert!(belief.learn_cas((vec![], 0), Some(b"ODD\r\n")).is_err());
    }

    #[test]
    fn a_forgetful_server_may_always_have_nothing() {
        let mut belief = Belief::new(b"a", true);
        belief.learn_reply(b"set a 0 0 1\r\nx\r\n", b"STORED\r\n").unwrap();
        belief.learn_item(None).unwrap();
        assert!(belief.learn_item(item("x")).is_err());
    }
}
