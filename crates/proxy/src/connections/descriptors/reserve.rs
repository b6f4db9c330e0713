//! Descriptors that are held open, so that one is there when the process has no other.
//!
//! ```text
//!   full ──let_go──▶ lacking: whoever let one go has it, or will have closed it soon
//!     ▲                 │
//!     └──── refill ─────┘ fails as long as there is no descriptor for it
//! ```
//!
//! [`Reserve`] owns them. It is asked to let one go when the kernel says that there are none: `EMFILE` means that the process may have no
//! more, `ENFILE` that the machine has none. It is asked to open what it lacks whenever something was closed. It answers whether it could.
//! The process opens its reserves before anything else, so that they have its lowest numbers: they can be used even where the limit was
//! lowered below numbers that are in use.

use nix::errno::Errno;
use socket2::{Domain, Socket, Type};
use std::{
    io,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

#[derive(Debug)]
pub(crate) struct Reserve {
    size: usize,
    held: Mutex<Vec<Socket>>,
    /// Whether there are fewer than `size`.
    is_lacking: AtomicBool,
}

impl Reserve {
    /// Holds `size` descriptors, or as many as there are.
    pub(crate) fn new(size: usize) -> Self {
        let reserve = Self { size, held: Mutex::default(), is_lacking: AtomicBool::new(size > 0) };
        reserve.refill();
        reserve
    }

    /// Opens what is lacking. Returns whether nothing is any more.
    pub(crate) fn refill(&self) -> bool {
        if !self.is_lacking.load(Ordering::Relaxed) {
            return true;
        }
        let mut held = self.held();
        while held.len() < self.size {
            // A socket that leads nowhere needs no file system, and counts where the machine counts open files.
            let Ok(socket) = Socket::new(Domain::UNIX, Type::DGRAM, None) else { return false };
            held.push(socket);
        }
        self.is_lacking.store(false, Ordering::Relaxed);
        true
    }

    /// Closes one, if there is one: its descriptor is free now.
    pub(crate) fn let_go(&self) -> bool {
        let mut held = self.held();
        self.is_lacking.store(self.size > 0, Ordering::Relaxed);
        held.pop().is_some()
    }

    fn held(&self) -> MutexGuard<'_, Vec<Socket>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the kernel says that there is no descriptor.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    [Errno::EMFILE, Errno::ENFILE].into_iter().any(|it| error.raw_os_error() == Some(it as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_let_go_is_lacking_until_it_was_refilled() {
        let reserve = Reserve::new(2);
        assert!(reserve.refill());
        assert!(reserve.let_go() && reserve.let_go() && !reserve.let_go());
        assert!(reserve.is_lacking.load(Ordering::Relaxed));
        assert!(reserve.refill() && !reserve.is_lacking.load(Ordering::Relaxed));
        let none = Reserve::new(0);
        assert!(none.refill() && !none.let_go() && none.refill());
    }
}
