//! The `weir` command: a memcached proxy, and a load generator that measures it.
//!
//! One file per subcommand; what they do lives in the crates `weir-proxy` and `weir-load`.

mod check;
mod config_file;
mod content;
mod convert;
mod like;
mod load;
mod log;
mod manual;
mod notices;
#[cfg(test)]
mod options_table;
mod pool;
mod proxy;
mod settings;
mod top;
mod where_key;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::{fmt::Display, process::ExitCode};

/// What `crates/weir/build.rs` found.
const COMMIT: &str = env!("WEIR_COMMIT");
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("WEIR_COMMIT"), ")");

/// One for each command, in the order of the list above them.
const EXAMPLES: &str = "\
Examples, one for each command:
  weir proxy --server 127.0.0.1:11211 --server 127.0.0.1:11212
  weir load --target 127.0.0.1:21211 --connections 16 --duration 10s
  weir top 127.0.0.1:21280
  weir where --server 127.0.0.1:11211 --server 127.0.0.1:11212 user:1
  weir check weir.toml
  weir convert nutcracker nutcracker.yml > weir.toml
  weir man proxy | man -l -
  weir completions bash > /etc/bash_completion.d/weir

weir COMMAND --help explains the flags of a command.";

/// Weir: a memcached proxy that measures itself, and the load to measure it with
#[derive(Parser, Debug)]
#[command(version = VERSION, propagate_version = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Stand between memcached clients and memcached servers
    Proxy(Box<proxy::ProxyArgs>),
    /// Generate load, closed loop or open loop, every reply verified
    Load(Box<load::LoadArgs>),
    /// Show what a proxy is doing now
    Top(top::TopArgs),
    /// Print which servers hold keys
    Where(where_key::WhereArgs),
    /// Check a configuration file
    Check(check::CheckArgs),
    /// Print the configuration that equals another proxy's
    Convert(convert::ConvertArgs),
    /// Write a manual page, to be shown by man -l
    Man(manual::ManArgs),
    /// Write a script with which a shell completes weir's command line
    Completions(manual::CompletionsArgs),
}

fn main() -> ExitCode {
    look_up_names_alone();
    let words = match like::expand(std::env::args_os().collect()) {
        Ok(words) => words,
        Err(ended) => return ended,
    };
    let matches = Cli::command().get_matches_from(words);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let of_command = matches.subcommand().map_or(&matches, |(_, of_command)| of_command);
    match cli.command {
        Command::Proxy(args) => args.run(of_command),
        Command::Load(args) => load::run(*args),
        Command::Top(args) => args.run(),
        Command::Where(args) => args.run(of_command),
        Command::Check(args) => args.run(),
        Command::Convert(args) => args.run(),
        Command::Man(args) => args.run(Cli::command()),
        Command::Completions(args) => args.run(Cli::command()),
    }
}

/// Says what went wrong, in one line, and ends with `status`: 2 where the command line is at fault, else 1.
#[expect(clippy::print_stderr, reason = "the command line talks to people")]
fn fail(status: u8, error: &dyn Display) -> ExitCode {
    eprintln!("weir: {error}");
    ExitCode::from(status)
}

/// Has a program that is linked statically with glibc look up names by `/etc/hosts` and DNS, itself.
///
/// glibc would load what `/etc/nsswitch.conf` names besides (such as systemd's resolver) from the machine. Those libraries need the
/// glibc of that machine, which is seldom of the version that is linked here. It is called before there are threads.
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
fn look_up_names_alone() {
    use std::ffi::{c_char, c_int};

    unsafe extern "C" {
        /// Of glibc's `nss.h`: from now on the database is what the line says, and not what the file says.
        fn __nss_configure_lookup(database: *const c_char, line: *const c_char) -> c_int;
    }
    // SAFETY: both strings end in a zero and live for ever; no other thread is there that could look up a name.
    let refused = unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
    debug_assert_eq!(refused, 0, "glibc has both services built in");
}

/// Programs that share the machine's C library do what the machine says.
#[cfg(not(all(target_env = "gnu", target_feature = "crt-static")))]
const fn look_up_names_alone() {}
