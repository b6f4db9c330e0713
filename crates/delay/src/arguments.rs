//! The command line.

use std::str::FromStr;

use clap::Parser;

/// The longest delay, in nanoseconds: ten seconds.
const DELAY_NS_MAX: u64 = 10_000_000_000;

/// Join interfaces like a switch, and delay what passes
#[derive(Parser, Debug)]
#[command(
    version,
    after_help = "\
Example: join two interfaces, with 0.35 ms each way

  weir-delay --port eth1=0.35 --port eth2=0.35

A frame that leaves through port NAME leaves MS after the kernel received it.
With MBIT_S, what comes in through the port is first sent at that rate, headers
included.

Prints one line of JSON when it is ready, and one for each line on standard
input. It ends when standard input ends. Lateness in a line is that since the
line before; counters are totals. Needs CAP_NET_RAW, and CAP_SYS_NICE for
real-time priority."
)]
pub(crate) struct Arguments {
    /// An interface, the delay of what leaves through it in milliseconds, and what may come in through it, in Mbit/s
    #[arg(long = "port", value_name = "NAME=MS[:MBIT_S]", required = true)]
    pub(crate) ports: Vec<PortArgument>,
    /// Memory in MiB for what waits at one port; what comes beyond is dropped and counted. Raise it for long delays of fast links
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) waiting_mib: u64,
    /// Wake exactly when a frame is due, and so be late by what waking takes. Use it to measure that lateness
    #[arg(long)]
    pub(crate) uncorrected: bool,
}

/// One `--port`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PortArgument {
    pub(crate) name: String,
    pub(crate) delay_ns: u64,
    /// Bits per second; `None` where nothing limits it.
    pub(crate) rate_bit_s: Option<u64>,
}

impl FromStr for PortArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<PortArgument, String> {
        let (name, rest) = text.split_once('=').ok_or("say NAME=MS, such as eth1=0.35")?;
        let (delay, rate) = rest.split_once(':').map_or((rest, None), |(delay, rate)| (delay, Some(rate)));
        if name.is_empty() {
            return Err("the interface has no name".to_owned());
        }
        let delay_ns = scaled(delay, 1e6, DELAY_NS_MAX)
            .ok_or_else(|| format!("{delay:?} is no delay: give 0 to 10000 milliseconds"))?;
        let rate_bit_s = rate
            .map(|rate| {
                scaled(rate, 1e6, 1_000_000_000_000)
                    .filter(|&bits| bits >= 1_000)
                    .ok_or_else(|| format!("{rate:?} is no rate: give 0.001 to 1000000 Mbit/s"))
            })
            .transpose()?;
        Ok(PortArgument { name: name.to_owned(), delay_ns, rate_bit_s })
    }
}

/// A decimal number times `unit`, rounded; `None` if it is none, or out of bounds.
fn scaled(text: &str, unit: f64, max: u64) -> Option<u64> {
    let value = text.parse::<f64>().ok()? * unit;
    (value >= 0.0 && value <= max as f64).then(|| value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_a_name_a_delay_and_perhaps_a_rate() {
        let plain = PortArgument { name: "eth1".to_owned(), delay_ns: 350_000, rate_bit_s: None };
        assert_eq!("eth1=0.35".parse(), Ok(plain.clone()));
        let limited = PortArgument { rate_bit_s: Some(20_100_000), ..plain };
        assert_eq!("eth1=0.35:20.1".parse(), Ok(limited));
        for wrong in
            ["eth1", "=1", "eth1=", "eth1=-1", "eth1=NaN", "eth1=10001", "eth1=1:", "eth1=1:0", "eth1=1:x"]
        {
            assert!(wrong.parse::<PortArgument>().is_err(), "{wrong}");
        }
    }
}
