//! One order of writes per key, over all workers.
//!
//! Each worker has its own connection to every server, so two writes in service at once may reach two replicas in different orders. With
//! replicas, a write therefore waits here while another to its key is in service, without holding a worker. `flush_all` writes to
//! everything: it waits for all writes in service, and those that come later wait for it.
//!
//! Without replicas only what was given up waits for something. A write may be answered by an error while its server may still carry it
//! out. It holds its key until the server has answered, so that it cannot undo a later one.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// What a request writes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The copies of one key.
    Key(Arc<[u8]>),
    /// All that is stored.
    Everything,
}

/// Who writes what, and who waits for that.
#[derive(Debug)]
pub(crate) struct WriteOrder<T> {
    /// Every write excludes others to its key, not only one that was given up.
    always: bool,
    /// Each key that is being written.
    writing: HashMap<Arc<[u8]>, Writing<T>>,
    /// Everything is being written.
    flushing: bool,
    /// Who waits for everything, and whoever came after that.
    barrier: VecDeque<(Scope, T)>,
}

#[derive(Debug)]
struct Writing<T> {
    /// How many must be done before the next may begin: more than one only of those that were given up.
    writers: usize,
    /// Writes that wait, the oldest first.
    waiting: VecDeque<T>,
}

impl<T> WriteOrder<T> {
    pub(crate) fn new(always: bool) -> Self {
        Self { always, writing: HashMap::new(), flushing: false, barrier: VecDeque::new() }
    }

    /// Whether a write may begin: it comes back if it may, and owns its scope if there is an order to keep.
    pub(crate) fn admit(&mut self, scope: &Scope, write: T) -> Option<T> {
        let behind_everything = self.flushing || !self.barrier.is_empty();
        match scope {
            _ if behind_everything => {
                self.barrier.push_back((scope.clone(), write));
                None
            }
            Scope::Key(key) => self.admit_key(key, write),
            Scope::Everything if self.always && !self.writing.is_empty() => {
                self.barrier.push_back((Scope::Everything, write));
                None
            }
            Scope::Everything => {
                self.flushing = self.always;
                Some(write)
            }
        }
    }

    fn admit_key(&mut self, key: &Arc<[u8]>, write: T) -> Option<T> {
        match self.writing.get_mut(key) {
            Some(writing) => {
                writing.waiting.push_back(write);
                None
            }
            None => {
                if self.always {
                    self.begin(key);
                }
                Some(write)
            }
        }
    }

    fn begin(&mut self, key: &Arc<[u8]>) {
        let none = || Writing { writers: 0, waiting: VecDeque::new() };
        self.writing.entry(Arc::clone(key)).or_insert_with(none).writers += 1;
    }

    /// A write was given up that may still happen: others to its key wait from now on.
    pub(crate) fn hold(&mut self, scope: &Scope) {
        if let Scope::Key(key) = scope {
            self.begin(key);
        }
    }

    /// A write is done. Returns those that may begin now, the oldest first; they own their scopes.
    pub(crate) fn finish(&mut self, scope: &Scope) -> Vec<T> {
        match scope {
            Scope::Key(key) => {
                let Some(writing) = self.writing.get_mut(key) else { return Vec::new() };
                if writing.writers > 1 {
                    writing.writers -= 1;
                    return Vec::new();
                }
                if let Some(next) = writing.waiting.pop_front() {
                    return vec![next];
                }
                self.writing.remove(key);
            }
            Scope::Everything => self.flushing = false,
        }
        if self.writing.is_empty() && !self.flushing { self.pass_barrier() } else { Vec::new() }
    }

    /// Nobody writes: the next that waits for everything may begin, or all up to it.
    fn pass_barrier(&mut self) -> Vec<T> {
        let mut passed = Vec::new();
        while let Some((scope, write)) = self.barrier.pop_front() {
            match scope {
                Scope::Key(key) => passed.extend(self.admit_key(&key, write)),
                Scope::Everything if passed.is_empty() => {
                    self.flushing = true;
                    return vec![write];
                }
                Scope::Everything => {
                    self.barrier.push_front((Scope::Everything, write));
                    break;
                }
            }
        }
        passed
    }

    /// Takes out who has waited too long, as far as it stands at the front of those that wait for the same.
    pub(crate) fn expire(&mut self, is_late: impl Fn(&T) -> bool, mut expired: impl FnMut(T)) {
        for waiting in self.writing.values_mut().map(|writing| &mut writing.waiting) {
            while waiting.front().is_some_and(&is_late) {
                waiting.pop_front().into_iter().for_each(&mut expired);
            }
        }
        while self.barrier.front().is_some_and(|(_, write)| is_late(write)) {
            self.barrier.pop_front().into_iter().for_each(|(_, write)| expired(write));
        }
    }

    /// The oldest of each group of those that wait.
    pub(crate) fn oldest(&self) -> impl Iterator<Item = &T> {
        let barrier = self.barrier.front().map(|(_, write)| write);
        self.writing.values().filter_map(|writing| writing.waiting.front()).chain(barrier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [i32; 0] = [];

    fn key(name: &str) -> Scope {
        Scope::Key(name.as_bytes().into())
    }

    #[test]
    fn writes_to_one_key_begin_one_after_the_other_in_their_order() {
        let mut order = WriteOrder::new(true);
        assert_eq!(order.admit(&key("a"), 1), Some(1));
        assert_eq!(order.admit(&key("a"), 2), None);
        assert_eq!(order.admit(&key("b"), 3), Some(3));
        assert_eq!(order.admit(&key("a"), 4), None);
        assert_eq!(order.finish(&key("a")), [2]);
        assert_eq!(order.admit(&key("a"), 5), None, "the key was handed over");
        assert_eq!(order.finish(&key("a")), [4]);
        assert_eq!(order.finish(&key("a")), [5]);
        assert_eq!(order.finish(&key("a")), NONE);
        assert_eq!(order.finish(&key("b")), NONE);
        assert_eq!(order.admit(&key("a"), 6), Some(6));
    }

    #[test]
    fn without_replicas_only_what_was_given_up_is_waited_for() {
        let mut order = WriteOrder::new(false);
        assert_eq!(order.admit(&key("a"), 1), Some(1));
        assert_eq!(order.admit(&key("a"), 2), Some(2));
        order.hold(&key("a"));
        order.hold(&key("a"));
        assert_eq!(order.admit(&key("a"), 3), None);
        assert_eq!(order.admit(&key("b"), 4), Some(4));
        assert_eq!(order.finish(&key("a")), NONE, "one of two was answered");
        assert_eq!(order.finish(&key("a")), [3]);
        assert_eq!(order.finish(&key("a")), NONE);
        assert_eq!(order.admit(&key("a"), 5), Some(5));
        assert_eq!(order.finish(&key("a")), NONE, "what nobody waits for is not kept");
        assert!(order.writing.is_empty());
    }

    #[test]
    fn what_writes_everything_waits_for_all_and_all_wait_for_it() {
        let mut order = WriteOrder::new(true);
        assert_eq!(order.admit(&key("a"), 1), Some(1));
        assert_eq!(order.admit(&key("a"), 2), None);
        assert_eq!(order.admit(&Scope::Everything, 3), None);
        assert_eq!(order.admit(&key("b"), 4), None);
        assert_eq!(order.admit(&key("b"), 5), None);
        assert_eq!(order.admit(&Scope::Everything, 6), None);
        assert_eq!(order.finish(&key("a")), [2], "it came before");
        assert_eq!(order.finish(&key("a")), [3]);
        assert_eq!(order.admit(&key("c"), 7), None);
        assert_eq!(order.finish(&Scope::Everything), [4], "5 is behind 4, 6 and 7 behind both");
        assert_eq!(order.finish(&key("b")), [5]);
        assert_eq!(order.finish(&key("b")), [6]);
        assert_eq!(order.finish(&Scope::Everything), [7]);
        assert_eq!(order.finish(&key("c")), NONE);
    }

    #[test]
    fn who_waits_too_long_is_taken_out_and_the_rest_keep_their_places() {
        let mut order = WriteOrder::new(true);
        (1..=4).for_each(|write| _ = order.admit(&key("a"), write));
        order.admit(&Scope::Everything, 5);
        order.admit(&key("b"), 6);
        assert_eq!(order.oldest().copied().collect::<Vec<_>>(), [2, 5]);
        let mut late = Vec::new();
        order.expire(|&write| write < 4 || write == 5, |write| late.push(write));
        assert_eq!(late, [2, 3, 5]);
        assert_eq!(order.finish(&key("a")), [4]);
        assert_eq!(order.finish(&key("a")), [6]);
    }
}
