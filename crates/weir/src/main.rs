//! The `weir` command.

mod load;

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
#[command(name = "weir", version, about = "A memcached proxy and its load generator")]
enum Command {
    Load(load::LoadArgs),
}

fn main() -> ExitCode {
    match Command::parse() {
        Command::Load(args) => load::run(args),
    }
}
