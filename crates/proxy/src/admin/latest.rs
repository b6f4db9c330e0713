//! What all threads that serve have reported last, for questions that anybody may ask.
//!
//! A report costs each of them some of its time, and whether the proxy is ready is asked without a token. So for that they are asked no
//! more often than once in a while, however many ask how often: who asks again before that gets what they have reported last. Reports that
//! are under way are waited for by all that come meanwhile.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};
use weir_timing::Instant;

/// For how long what was reported is an answer, from when the threads were asked. A probe asks once in a second or more, and waits for longer.
const AGE_NS: u64 = 50_000_000;

/// What was reported last.
#[derive(Debug)]
pub(super) struct Latest<T>(Mutex<Option<Reported<T>>>);

#[derive(Debug)]
struct Reported<T> {
    /// The number of the configuration that was in force when it was asked for.
    generation: u64,
    asked: Instant,
    /// Or why nothing was.
    heard: Result<Arc<T>, String>,
}

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Latest<T> {
    /// What was reported last, if that was asked for a moment ago at most, and under the configuration with the number that is in force.
    /// Otherwise it is asked for, by `ask`. That nobody answers is known for no longer.
    pub(super) fn ask(
        &self,
        generation: impl FnOnce() -> u64,
        clock: impl FnOnce() -> Instant,
        ask: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<Arc<T>> {
        // Whoever comes while threads are asked waits here. What is under the lock is whole at every step that could panic.
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (generation, now) = (generation(), clock());
        let reported = match last.take() {
            Some(it) if it.generation == generation && now < it.asked.plus(AGE_NS) => it,
            _ => {
                let heard = ask().map(Arc::new).map_err(|error| error.to_string());
                Reported { generation, asked: now, heard }
            }
        };
        last.insert(reported).heard.clone().map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::Cell, thread};

    const MS: u64 = 1_000_000;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(1_000 * MS + nanos)
    }

    /// Each question is answered how often threads were asked before it.
    #[derive(Default)]
    struct Asked {
        latest: Latest<u32>,
        count: Cell<u32>,
    }

    impl Asked {
        fn ask(&self, generation: u64, nanos: u64) -> u32 {
            let tell = || Ok(self.count.replace(self.count.get() + 1));
            *self.latest.ask(|| generation, || at(nanos), tell).expect("threads answer")
        }
    }

    /// Whoever reached the admin port could ask without end whether the proxy is ready, and had all loops tell all that they had measured.
    #[test]
    fn who_asks_without_end_has_threads_asked_once_in_a_while() {
        let asked = Asked::default();
        for micros in 0..1_000_000 / 20 {
            asked.ask(1, micros * 20 * MS / 1_000);
        }
        assert_eq!(asked.count.get(), 20, "within a second");
    }

    #[test]
    fn what_was_reported_is_an_answer_until_it_is_too_old() {
        let asked = Asked::default();
        assert_eq!((asked.ask(1, 0), asked.ask(1, AGE_NS - 1), asked.ask(1, AGE_NS)), (0, 0, 1));
        assert_eq!(asked.ask(1, AGE_NS + 1), 1, "it is as old as its question");
        assert_eq!(asked.ask(1, 1_000 * AGE_NS), 2);
    }

    #[test]
    fn what_was_reported_under_another_configuration_is_no_answer() {
        let asked = Asked::default();
        assert_eq!((asked.ask(1, 0), asked.ask(2, 1), asked.ask(2, 2)), (0, 1, 1));
    }

    /// A proxy whose loop has ended is not ready, whatever was reported before that.
    #[test]
    fn nobody_hears_of_what_was_before_a_failure() {
        let latest = Latest::default();
        let ask = |nanos, tell: io::Result<u32>| latest.ask(|| 1, || at(nanos), || tell);
        assert_eq!(ask(0, Ok(7)).expect("threads answer"), Arc::new(7));
        let failed = |nanos| ask(nanos, Err(io::Error::other("no thread answers")));
        assert_eq!(failed(AGE_NS).expect_err("nobody answers").to_string(), "no thread answers");
        // Nor is anybody asked without end then.
        assert!(ask(AGE_NS + 1, Ok(8)).is_err());
        assert_eq!(ask(2 * AGE_NS, Ok(8)).expect("threads answer"), Arc::new(8));
    }

    #[test]
    fn who_comes_while_threads_are_asked_gets_their_answer() {
        let latest = Latest::default();
        let others = thread::scope(|scope| {
            let mut others = Vec::new();
            let first = latest.ask(
                || 1,
                || at(0),
                || {
                    let other = || latest.ask(|| 1, || at(1), || Ok(8)).map(|answer| *answer).ok();
                    others.extend((0..4).map(|_| scope.spawn(other)));
                    Ok(7)
                },
            );
            assert_eq!(first.expect("threads answer"), Arc::new(7));
            others.into_iter().map(|other| other.join().expect("it is answered")).collect::<Vec<_>>()
        });
        assert_eq!(others, [Some(7); 4]);
    }
}
