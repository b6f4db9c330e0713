//! The threads of a proxy, and that none of them ends unnoticed.
//!
//! While a proxy serves, it waits for a signal. A thread that panics, or cannot go on, notes why and sends that signal itself, so the
//! proxy ends with that error, and who runs it starts it anew. Without a thread that serves it would leave clients without answers for
//! ever. Without another one it would go on for months and take no new configuration, look up no name, or tell no number.

use crate::process::error::RunError;
use signal_hook::{consts::SIGTERM, low_level};
use std::{
    any::Any,
    io,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

pub(crate) type LoopThread = JoinHandle<io::Result<()>>;

/// Whether a thread that should not have has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch(Arc<Watched>);

#[derive(Debug, Default)]
struct Watched {
    /// The first thread that has, and why.
    failure: OnceLock<(String, String)>,
    /// Nobody waits for the signal any more: all threads are waited for.
    is_stopping: AtomicBool,
}

impl Watch {
    /// Starts a thread.
    pub(crate) fn spawn(
        &self,
        name: String,
        work: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Result<LoopThread, RunError> {
        let (watch, thread) = (self.clone(), name.clone());
        spawn(name, move || {
            // What the thread had of its own is dropped; what it shares is behind locks, and whole at every step that could panic.
            match panic::catch_unwind(AssertUnwindSafe(work)) {
                Ok(ended) => ended.inspect_err(|error| watch.note(thread, error.to_string())),
                Err(payload) => {
                    watch.note(thread, panicked(payload.as_ref()));
                    panic::resume_unwind(payload)
                }
            }
        })
    }

    /// From now on all threads are waited for.
    pub(crate) fn stop(&self) {
        self.0.is_stopping.store(true, Ordering::SeqCst);
    }

    /// Why the proxy cannot go on, if it cannot.
    pub(crate) fn failure(&self) -> Option<RunError> {
        let (name, why) = self.0.failure.get()?.clone();
        Some(RunError::Thread { name, why })
    }

    fn note(&self, thread: String, why: String) {
        let is_first = self.0.failure.set((thread, why)).is_ok();
        if is_first && !self.0.is_stopping.load(Ordering::SeqCst) {
            // Cannot fail: the process may send itself a signal that there is.
            let _ = low_level::raise(SIGTERM);
        }
    }
}

fn spawn(
    name: String,
    work: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Result<LoopThread, RunError> {
    thread::Builder::new()
        .name(name)
        .spawn(work)
        .map_err(|source| RunError::System { what: "start a thread", source })
}

/// Starts a thread that ends with this work, and is waited for by nobody. `hand_over` gets what came of the work, or `None` where it has
/// panicked. The error: there is no such thread.
pub(crate) fn begin<T>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
    hand_over: impl FnOnce(Option<T>) + Send + 'static,
) -> io::Result<()> {
    let thread = move || hand_over(panic::catch_unwind(AssertUnwindSafe(work)).ok());
    thread::Builder::new().name(name.into()).spawn(thread).map(drop)
}

/// Waits until a thread has ended.
pub(crate) fn join(thread: LoopThread) -> Result<(), RunError> {
    let name = thread.thread().name().unwrap_or_default().to_owned();
    let why = match thread.join() {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error.to_string(),
        Err(payload) => panicked(payload.as_ref()),
    };
    Err(RunError::Thread { name, why })
}

fn panicked(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("it panicked ({}); please report this", text.unwrap_or("without a message"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::iterator::Signals;
    use std::{sync::mpsc, time::Duration};

    /// What a thread that ends so leads to: whether the signal came within `wait_max`, and the error.
    fn check(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> (bool, String) {
        let mut signals = Signals::new([SIGTERM]).expect("signals can be handled");
        let (signalled, came) = mpsc::channel();
        let handle = signals.handle();
        let waiting = thread::spawn(move || {
            signals.forever().for_each(|signal| signalled.send(signal).expect("heard"));
        });
        let watch = Watch::default();
        let thread = watch.spawn("weir-test".into(), work).expect("a thread can be started");
        let joined = join(thread).map_or_else(|error| error.to_string(), |()| String::new());
        // It was sent before the thread ended.
        let has_come = !joined.is_empty() && came.recv_timeout(Duration::from_secs(30)) == Ok(SIGTERM);
        handle.close();
        waiting.join().expect("it only waits");
        assert_eq!(watch.failure().map_or_else(String::new, |error| error.to_string()), joined);
        (has_come, joined)
    }

    #[test]
    fn a_thread_that_panics_or_fails_ends_the_proxy_and_is_named() {
        let (has_come, error) = check(|| panic!("out of {}", "luck"));
        assert!(has_come);
        assert_eq!(error, "thread weir-test has ended: it panicked (out of luck); please report this");
        let (has_come, error) = check(|| Err(io::Error::other("no more descriptors")));
        assert!(has_come);
        assert_eq!(error, "thread weir-test has ended: no more descriptors");
        assert_eq!(check(|| Ok(())), (false, String::new()));
    }

    #[test]
    fn what_comes_of_a_thread_that_nobody_waits_for_is_handed_over() {
        let (sender, receiver) = mpsc::channel();
        for is_lucky in [true, false] {
            let sender = sender.clone();
            let work = move || if is_lucky { 7 } else { panic!("out of luck") };
            begin("weir-test", work, move |found| sender.send(found).expect("heard")).expect("a thread");
            assert_eq!(receiver.recv(), Ok(is_lucky.then_some(7)));
        }
    }

    #[test]
    fn while_all_are_waited_for_no_signal_goes_unheard() {
        let watch = Watch::default();
        watch.stop();
        // A signal would end this process: nobody handles it.
        let thread = watch.spawn("weir-late".into(), || panic!("late")).expect("a thread can be started");
        assert!(join(thread).is_err());
        assert!(watch.failure().is_some());
    }
}
