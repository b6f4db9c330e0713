//! What a process writes to its standard error.

use std::{
    io::Read as _,
    process::ChildStderr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// Reads what a process complains about as it comes, and keeps the end of it. A pipe that nobody reads would stop the process when it is
/// full. Once a client has asked for `verbosity 1`, memcached writes a line there for every command. Its worker would wait in `write` for
/// ever, with all its clients.
#[derive(Debug)]
pub(super) struct Complaints {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The last [`KEPT_BYTES`] of it.
    last: Vec<u8>,
    ended: bool,
}

const KEPT_BYTES: usize = 2048;

impl Complaints {
    pub(super) fn of(mut errors: ChildStderr) -> Self {
        let shared = Arc::new(Shared::default());
        let reader = Arc::clone(&shared);
        // It ends with the process, which ends with its owner.
        thread::spawn(move || {
            let mut buffer = [0; 16 << 10];
            while let Ok(count @ 1..) = errors.read(&mut buffer) {
                reader.keep(&buffer[..count]);
            }
            reader.state().ended = true;
            reader.changed.notify_all();
        });
        Self { shared }
    }

    /// The first line, or as much of it as there is when the process ends or `timeout` does. It is right only before more than that was
    /// said.
    pub(super) fn first_line(&self, timeout: Duration) -> String {
        let open = |state: &mut State| !state.ended && !state.last.contains(&b'\n');
        let (state, _) = self
            .shared
            .changed
            .wait_timeout_while(self.shared.state(), timeout, open)
            .unwrap_or_else(PoisonError::into_inner);
        let line = state.last.split(|&byte| byte == b'\n').next().unwrap_or_default();
        String::from_utf8_lossy(line).into_owned()
    }

    /// What was said last.
    pub(super) fn last(&self) -> String {
        let timeout = Duration::from_secs(1);
        let (state, _) = self
            .shared
            .changed
            .wait_timeout_while(self.shared.state(), timeout, |state| !state.ended)
            .unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&state.last).into_owned()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, bytes: &[u8]) {
        let mut state = self.state();
        state.last.extend_from_slice(bytes);
        let surplus = state.last.len().saturating_sub(KEPT_BYTES);
        state.last.drain(..surplus);
        drop(state);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn complaints_of(script: &str) -> (Complaints, std::process::Child) {
        let mut child =
            Command::new("sh").args(["-c", script]).stderr(Stdio::piped()).spawn().expect("there is a shell");
        (Complaints::of(child.stderr.take().expect("it is piped")), child)
    }

    /// More than any pipe holds.
    #[test]
    fn who_complains_a_lot_is_not_stopped() {
        let script = "echo listening >&2; head -c 3000000 /dev/zero | tr '\\0' x >&2; echo end >&2";
        let (complaints, mut child) = complaints_of(script);
        assert!(child.wait().expect("it is our child").success());
        let last = complaints.last();
        assert_eq!(last.len(), KEPT_BYTES);
        assert!(last.ends_with("xend\n"));
    }

    #[test]
    fn the_first_line_is_waited_for() {
        let (complaints, mut child) = complaints_of("printf 'listen' >&2; printf 'ing\\nmore' >&2");
        assert_eq!(complaints.first_line(Duration::from_secs(20)), "listening");
        child.wait().expect("it is our child");
    }
}
