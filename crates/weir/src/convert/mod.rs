//! `weir convert`: the configuration that equals another proxy's, or a client's.
//!
//! One file per system, each from text to [`Converted`] pools. What decides where keys go is converted or refused, never
//! dropped; other settings without an equal become comments. `verify` asks the other proxy and the servers whether it is so.

mod converted;
mod libmemcached;
mod mcrouter;
mod nutcracker;
mod verify;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};

use self::converted::Converted;
use crate::config_file;

/// The largest file that is converted, in bytes.
const BYTES_MAX: u64 = 16 << 20;

/// The flags of `weir convert`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example: weir convert nutcracker nutcracker.yml > weir.toml

Prints TOML for weir proxy --config. Settings without an equal are named in
comments. Where keys would move, or where the file is wrong, there is no output
and the status is 2. What becomes of each setting: docs/operate/moving.md")]
pub(crate) struct ConvertArgs {
    #[command(subcommand)]
    from: From,
    #[command(flatten)]
    verify: verify::VerifyArgs,
}

#[derive(Subcommand, Debug)]
enum From {
    /// From twemproxy's YAML
    Nutcracker {
        /// The file, as `nutcracker --conf-file` takes it; `-` is standard input
        file: PathBuf,
    },
    /// From mcrouter's JSON, with its comments and without macros
    Mcrouter {
        /// The file, as `mcrouter --config file:` takes it; `-` is standard input
        file: PathBuf,
    },
    /// From a configuration string of libmemcached's clients: --SERVER=... --DISTRIBUTION=...
    Libmemcached {
        /// A file with the string, as memcached() takes it; `-` is standard input
        file: PathBuf,
    },
}

impl ConvertArgs {
    /// Prints the equal configuration, or says what has none.
    pub(crate) fn run(&self) -> ExitCode {
        let text = match self.converted() {
            Ok(text) => text,
            Err(reason) => return crate::fail(2, &reason),
        };
        match self.verify.run(&text) {
            Err(reason) => return crate::fail(2, &reason),
            Ok(Some(verdict)) if !verdict.agrees() => return crate::fail(1, &verdict),
            Ok(Some(verdict)) => {
                let _ = writeln!(io::stderr(), "weir: {verdict}");
            }
            Ok(None) => {}
        }
        match io::stdout().write_all(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => crate::fail(1, &format!("cannot write the configuration: {error}")),
        }
    }

    fn converted(&self) -> Result<String, String> {
        match &self.from {
            From::Nutcracker { file } => convert(file, nutcracker::convert),
            From::Mcrouter { file } => convert(file, |text| mcrouter::convert(text, now_s())),
            From::Libmemcached { file } => convert(file, libmemcached::convert),
        }
    }
}

/// Seconds since 1970.
fn now_s() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "whether a migration is over depends on the time of day")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn convert(file: &Path, read: impl Fn(&str) -> Result<Converted, String>) -> Result<String, String> {
    let (name, text) = if file.as_os_str() == "-" {
        let name = "standard input".to_owned();
        (name.clone(), config_file::text_of(io::stdin().lock(), &name, BYTES_MAX))
    } else {
        (file.display().to_string(), config_file::read_text(file, BYTES_MAX))
    };
    let text = text.map_err(|error| error.to_string())?;
    let of_file = |reason: String| format!("{name}: {reason}");
    let converted = read(&text).map_err(of_file)?;
    converted.check().map_err(of_file)?;
    let text = converted.to_toml();
    // What only shows over all pools: servers with one name, settings that pools must share.
    config_file::parse(&text, "the equal file").map_err(|error| of_file(error.to_string()))?;
    Ok(text)
}
