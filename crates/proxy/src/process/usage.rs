//! What the kernel knows of this process: its CPU time and its memory.

use rustix::param;

/// CPU time and memory of this process.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    pub(crate) cpu_user_ns: u64,
    pub(crate) cpu_system_ns: u64,
    pub(crate) resident_bytes: u64,
}

/// In what proc(5) counts.
#[derive(Clone, Copy, Debug)]
struct Units {
    /// CPU time, in ticks of so many in a second.
    ticks_per_second: u64,
    /// Memory, in pages: 4 KiB on x86-64, 4, 16 or 64 KiB on arm64.
    page_bytes: u64,
}

impl Usage {
    pub(crate) fn read() -> Self {
        let units = Units {
            ticks_per_second: param::clock_ticks_per_second(),
            page_bytes: param::page_size() as u64,
        };
        Self::parse(&std::fs::read_to_string("/proc/self/stat").unwrap_or_default(), units)
    }

    fn parse(stat: &str, units: Units) -> Self {
        // The second field is the command's name in parentheses and may hold anything; utime and stime are the 14th and 15th.
        let fields: Vec<u64> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect())
            .unwrap_or_default();
        let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0);
        let nanos = |number| {
            let nanos = u128::from(field(number)) * 1_000_000_000 / u128::from(units.ticks_per_second.max(1));
            u64::try_from(nanos).unwrap_or(u64::MAX)
        };
        Self {
            cpu_user_ns: nanos(14),
            cpu_system_ns: nanos(15),
            resident_bytes: field(24).saturating_mul(units.page_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "7 (we) ir (x) S 1 7 7 0 -1 4194304 9 0 0 0 250 75 0 0 20 0 3 0 100 9000000 1234 18446744073709551615";

    #[test]
    fn the_kernels_units_are_those_that_it_says() {
        for (ticks_per_second, page_bytes, cpu, resident) in [
            (100, 4096, (2_500_000_000, 750_000_000), 1234 * 4096),
            (1000, 65_536, (250_000_000, 75_000_000), 1234 * 65_536),
        ] {
            let process = Usage::parse(STAT, Units { ticks_per_second, page_bytes });
            assert_eq!((process.cpu_user_ns, process.cpu_system_ns), cpu);
            assert_eq!(process.resident_bytes, resident);
        }
        assert_eq!(Usage::parse("", Units { ticks_per_second: 0, page_bytes: 1 }).cpu_user_ns, 0);
    }

    #[test]
    fn memory_is_what_the_kernel_counts_in_bytes() {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a process has memory");
        let kib: u64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
        let resident = Usage::read().resident_bytes;
        // It grows and shrinks between two readings.
        assert!((kib * 512..=kib * 2048).contains(&resident), "{resident} bytes, and {kib} KiB");
    }
}
