//! What the kernel knows of this process: its CPU time and its memory.

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::{TimeVal, TimeValLike as _},
};
use rustix::param;

/// CPU time and memory of this process; what the kernel does not tell is 0.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    cpu_user_ns: u64,
    cpu_system_ns: u64,
    resident_bytes: u64,
}

impl Usage {
    pub(crate) fn read() -> Self {
        let nanos = |time: TimeVal| u64::try_from(time.num_nanoseconds()).unwrap_or(0);
        let used = getrusage(UsageWho::RUSAGE_SELF);
        let (user, system) = used.map_or((0, 0), |used| (nanos(used.user_time()), nanos(used.system_time())));
        let pages = resident_pages(&std::fs::read_to_string("/proc/self/statm").unwrap_or_default());
        // A page has 4 KiB on x86-64, and 4, 16 or 64 KiB on arm64.
        let resident_bytes = pages.saturating_mul(param::page_size() as u64);
        Self { cpu_user_ns: user, cpu_system_ns: system, resident_bytes }
    }

    pub(crate) fn cpu_user_ns(&self) -> u64 {
        self.cpu_user_ns
    }

    pub(crate) fn cpu_system_ns(&self) -> u64 {
        self.cpu_system_ns
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        self.resident_bytes
    }
}

/// The second number of `statm`, as in proc_pid_statm(5).
fn resident_pages(statm: &str) -> u64 {
    statm.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The field with this number of proc_pid_stat(5), whose second is in parentheses.
    fn stat(number: usize) -> u64 {
        let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
        let (_, rest) = stat.rsplit_once(')').expect("a name in parentheses");
        rest.split_whitespace().nth(number - 3).expect("a field").parse().expect("a number")
    }

    #[test]
    fn cpu_time_is_what_the_kernel_counts_in_ticks() {
        let nanos = |ticks: u64| ticks * 1_000_000_000 / param::clock_ticks_per_second();
        let before = nanos(stat(14) + stat(15));
        let usage = Usage::read();
        let after = nanos(stat(14) + stat(15));
        let both = usage.cpu_user_ns() + usage.cpu_system_ns();
        // Each of the two is rounded down to ticks there.
        assert!((before..=after + nanos(2)).contains(&both), "{both} ns, and {before} to {after}");
    }

    #[test]
    fn memory_is_what_the_kernel_counts_in_bytes() {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a process has memory");
        let kib: u64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
        let resident = Usage::read().resident_bytes();
        // It grows and shrinks between two readings.
        assert!((kib * 512..=kib * 2048).contains(&resident), "{resident} bytes, and {kib} KiB");
    }

    #[test]
    fn what_is_not_reported_is_nothing() {
        assert_eq!(
            (resident_pages("9000 1234 56\n"), resident_pages(""), resident_pages("1 x")),
            (1234, 0, 0)
        );
    }
}
