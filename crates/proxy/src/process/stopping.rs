//! How a proxy is asked to stop, and what it does until it stops.
//!
//! ```text
//!   serving ──SIGTERM──▶ not ready, serving (--drain-delay) ──▶ draining ──▶ ended
//!      ╲──SIGINT, or a thread has ended──────────────────────▶╱      ╲──a second signal──▶ ended at once
//! ```
//!
//! While it is not ready (`/readyz`), a balancer takes it out, and clients that it has already sent come in.
//!
//! [`Stopping`] owns the signals. It is asked to wait for one, and says which came.

use crate::process::{error::RunError, threads::Watch};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use std::{
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    time::{Duration, Instant},
};

/// Signals, as they come.
pub(crate) struct Stopping {
    signals: Receiver<i32>,
    is_stopping: Arc<AtomicBool>,
    watch: Watch,
}

/// Why a proxy stops.
pub(crate) struct Stop {
    /// The signal's name.
    pub(crate) signal: &'static str,
    /// For how long it goes on serving.
    pub(crate) delay: Duration,
}

impl Stopping {
    /// From now on signals do not end the process.
    pub(crate) fn begin(watch: &Watch) -> Result<Self, RunError> {
        let mut handled = Signals::new([SIGTERM, SIGINT, SIGHUP])
            .map_err(|source| RunError::System { what: "handle signals", source })?;
        let (sender, signals) = channel();
        watch.spawn("weir-signals".into(), move || {
            // Ends when nobody waits for them any more, with the process.
            handled.forever().all(|signal| sender.send(signal).is_ok());
            Ok(())
        })?;
        Ok(Self { signals, is_stopping: Arc::default(), watch: watch.clone() })
    }

    /// Whether the proxy is about to stop.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_stopping)
    }

    /// Waits for a signal to stop. `delay` is for SIGTERM, which supervisors send; a person at a terminal does not wait.
    pub(crate) fn wait(&self, delay: Duration, reload: impl Fn()) -> Stop {
        let signal = loop {
            match self.signals.recv() {
                Ok(SIGHUP) => reload(),
                Ok(signal) => break signal,
                // The thread that takes them has ended, which is a failure of its own.
                Err(_) => break SIGTERM,
            }
        };
        self.is_stopping.store(true, Ordering::SeqCst);
        if signal == SIGINT {
            return Stop { signal: "SIGINT", delay: Duration::ZERO };
        }
        Stop { signal: "SIGTERM", delay }
    }

    /// Returns when this time is over, or a thread has ended. A second signal to stop ends the process at once.
    #[expect(clippy::disallowed_methods, reason = "a driver: how long a wait that was interrupted still is")]
    pub(crate) fn pass(&self, delay: Duration, reload: impl Fn()) {
        let until = Instant::now() + delay;
        loop {
            match self.signals.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(SIGHUP) => reload(),
                Ok(_) if self.watch.failure().is_some() => return,
                Ok(_) => process::exit(1),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// A second signal ends the process at once.
    pub(crate) fn end_at_the_next(self) -> Result<(), RunError> {
        let signals = self.signals;
        let wait = move || {
            if signals.iter().any(|signal| signal != SIGHUP) {
                process::exit(1);
            }
            Ok(())
        };
        self.watch.spawn("weir-exit".into(), wait).map(drop)
    }
}
