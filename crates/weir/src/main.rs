//! The `weir` command: a memcached proxy, and a load generator that measures it.
//!
//! One file per subcommand; what they do lives in the crates `weir-proxy` and `weir-load`.

mod check;
mod config_file;
mod convert;
mod load;
mod pool;
mod proxy;
mod units;
mod where_key;

use clap::{Parser, Subcommand};
use std::{fmt::Display, process::ExitCode};

/// Weir: a memcached proxy that measures itself, and the load to measure it with
#[derive(Parser, Debug)]
#[command(version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Stand between memcached clients and memcached servers
    Proxy(proxy::ProxyArgs),
    /// Generate load: closed loop, every reply verified
    Load(load::LoadArgs),
    /// Print which servers hold keys
    Where(where_key::WhereArgs),
    /// Check a configuration file
    Check(check::CheckArgs),
    /// Print the configuration that equals another proxy's
    Convert(convert::ConvertArgs),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Proxy(args) => args.run(),
        Command::Load(args) => load::run(args),
        Command::Where(args) => args.run(),
        Command::Check(args) => args.run(),
        Command::Convert(args) => args.run(),
    }
}

/// Says what went wrong, in one line, and ends with `status`: 2 where the command line is at fault, else 1.
#[expect(clippy::print_stderr, reason = "the command line talks to people")]
fn fail(status: u8, error: &dyn Display) -> ExitCode {
    eprintln!("weir: {error}");
    ExitCode::from(status)
}
