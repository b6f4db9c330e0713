//! A wait that ends when it should.
//!
//! epoll waits for whole milliseconds, which at a thousand requests a second is as long as the gap between two of them. On
//! Linux a timer descriptor wakes the event loop within some microseconds instead, and costs nothing while it waits.

#[cfg(target_os = "linux")]
pub(crate) use linux::Timer;
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::Timer;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::time::Duration;

    use mio::unix::SourceFd;
    use mio::{Interest, Registry, Token};
    use weir_timing::Instant;

    /// A timer that wakes one event loop.
    #[derive(Debug)]
    pub(crate) struct Timer {
        descriptor: OwnedFd,
        /// What it is set to.
        set_to: Option<Instant>,
    }

    impl Timer {
        pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Timer> {
            let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
            // SAFETY: `timerfd_create` takes two numbers and touches no memory.
            let raw = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) };
            if raw < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: `raw` is a descriptor that was just opened and that nothing else owns.
            let descriptor = unsafe { OwnedFd::from_raw_fd(raw) };
            registry.register(&mut SourceFd(&descriptor.as_raw_fd()), token, Interest::READABLE)?;
            Ok(Timer { descriptor, set_to: None })
        }

        /// Sees to it that the event loop wakes at `wake`, and tells how long it may wait for other events at most.
        pub(crate) fn set(&mut self, now: Instant, wake: Instant) -> io::Result<Option<Duration>> {
            let left_ns = wake.saturating_since(now);
            if left_ns == 0 {
                return Ok(Some(Duration::ZERO));
            }
            if self.set_to != Some(wake) {
                self.settime(left_ns)?;
                self.set_to = Some(wake);
            }
            Ok(None)
        }

        fn settime(&self, left_ns: u64) -> io::Result<()> {
            let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            let value = libc::timespec {
                tv_sec: (left_ns / 1_000_000_000) as _,
                tv_nsec: (left_ns % 1_000_000_000) as libc::c_long,
            };
            let timer = libc::itimerspec { it_interval: zero, it_value: value };
            // SAFETY: the descriptor is open, `timer` is valid for reading, and no old value is asked for.
            let status = unsafe {
                libc::timerfd_settime(self.descriptor.as_raw_fd(), 0, &raw const timer, std::ptr::null_mut())
            };
            if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod portable {
    use std::io;
    use std::time::Duration;

    use mio::{Registry, Token};
    use weir_timing::Instant;

    /// A timer that relies on the precision of the system's wait for events.
    #[derive(Debug)]
    pub(crate) struct Timer;

    impl Timer {
        pub(crate) fn new(_: &Registry, _: Token) -> io::Result<Timer> {
            Ok(Timer)
        }

        /// How long the event loop may wait for other events at most, to wake at `wake`.
        pub(crate) fn set(&mut self, now: Instant, wake: Instant) -> io::Result<Option<Duration>> {
            Ok(Some(Duration::from_nanos(wake.saturating_since(now))))
        }
    }
}
