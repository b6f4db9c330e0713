//! `weir-delay`: a switch for Ethernet frames that hands each one on a given time after it came.
//!
//! The laboratory joins the machines of its testbed `netns` with it where the kernel has no netem. It is no part of the proxy.
//!
//! ```text
//!               kernel's stamp                              stamp + delay of the receiver's port
//! port 1 ──▶ packet socket ──▶ switch (who is where) ──▶ lane of port 2, in order ──▶ packet socket ──▶ port 2
//!                                uplink's rate, if any       bounded, counted
//! ```
//!
//! One thread does it all, with real-time priority where it may. It sleeps until the next frame is due, and wakes earlier by what it
//! was late at the median so far (`correction`). Start with `device`; `packets` is the only file that talks to the kernel's sockets.

#[cfg(target_os = "linux")]
mod arguments;
#[cfg(target_os = "linux")]
mod correction;
#[cfg(target_os = "linux")]
mod device;
#[cfg(target_os = "linux")]
mod frame;
#[cfg(target_os = "linux")]
mod lanes;
#[cfg(target_os = "linux")]
mod lateness;
#[cfg(target_os = "linux")]
mod packets;
#[cfg(target_os = "linux")]
mod priority;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod switch;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
#[expect(clippy::print_stderr, reason = "the command line talks to people")]
fn main() -> ExitCode {
    let arguments = <arguments::Arguments as clap::Parser>::parse();
    match device::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir-delay: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::print_stderr, reason = "the command line talks to people")]
fn main() -> ExitCode {
    eprintln!("weir-delay: runs on Linux only; it needs packet sockets");
    ExitCode::FAILURE
}
