//! CPU time of this process.

use std::mem::MaybeUninit;

/// User and system time of all threads since the process began, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CpuTime {
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
}

impl CpuTime {
    /// The CPU time so far.
    pub(crate) fn now() -> CpuTime {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: `getrusage` writes one `rusage` to the pointer, which is valid for it, and all zeros is a valid `rusage`
        // should it write nothing.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init()
        };
        CpuTime { user_ns: nanos(usage.ru_utime), system_ns: nanos(usage.ru_stime) }
    }

    /// What was used between `earlier` and this.
    pub(crate) fn since(self, earlier: CpuTime) -> CpuTime {
        CpuTime {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }

    pub(crate) fn total_ns(self) -> u64 {
        self.user_ns + self.system_ns
    }
}

fn nanos(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000
}
