//! `weir where`: which servers hold a key.

use std::ffi::OsString;
use std::io::{self, BufRead, BufWriter, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use clap::ArgMatches;
use clap::Args;
use weir_routing::{Placement, REPLICAS_MAX, Table, fingerprint};

use crate::pool::PoolArgs;

/// The longest line of keys that is read from standard input, in bytes: as long as a request line may be.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// The flags of `weir where`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example: where two keys are, and where they would be under twemproxy

  weir where --server 127.0.0.1:11211 --server 127.0.0.1:11212 user:1 user:2
  weir where --server 127.0.0.1:11211 --server 127.0.0.1:11212 \\
      --placement twemproxy/ketama user:1 user:2

  weir where --key-hash user:1

Prints a line per key: the names of its servers, the primary first, between
spaces. Keys are not printed, as they may hold any byte but a newline.")]
pub(crate) struct WhereArgs {
    #[command(flatten)]
    pool: PoolArgs,
    /// The keys; `-` alone reads them from standard input, one per line
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<OsString>,
    /// Instead: print the hash by which /hot, stats hot and weir top name each key. It needs no servers
    #[arg(long)]
    key_hash: bool,
    /// Instead: print every placement, one per line, and whether it is `even` or spreads keys by `points` on a ring
    #[arg(long, exclusive = true)]
    placements: bool,
}

impl WhereArgs {
    /// Prints the servers of every key.
    pub(crate) fn run(&self, matches: &ArgMatches) -> ExitCode {
        let mut out = BufWriter::new(io::stdout().lock());
        if self.placements {
            return end(tell_placements(&mut out).and_then(|()| out.flush()));
        }
        if self.key_hash {
            return end(self.tell_all(tell_hash, &mut out).and_then(|()| out.flush()));
        }
        let table = match self.pool.source(matches).and_then(|source| source.table()) {
            Ok(table) => table,
            Err(error) => return crate::fail(2, &error),
        };
        let written = self.tell_all(|key, out| tell(&table, key, out), &mut out);
        end(written.and_then(|()| out.flush()))
    }

    fn tell_all(&self, tell: impl Tell, out: &mut dyn Write) -> io::Result<()> {
        match self.keys.as_slice() {
            [only] if only == "-" => tell_lines(tell, &mut io::stdin().lock(), out),
            keys => keys.iter().try_for_each(|key| tell(key.as_bytes(), out)),
        }
    }
}

/// Says something of a key, on a line.
trait Tell: Fn(&[u8], &mut dyn Write) -> io::Result<()> {}

impl<F: Fn(&[u8], &mut dyn Write) -> io::Result<()>> Tell for F {}

fn end(written: io::Result<()>) -> ExitCode {
    match written {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads has read enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => crate::fail(1, &error),
    }
}

fn tell_placements(out: &mut dyn Write) -> io::Result<()> {
    for placement in Placement::ALL {
        let spread = if placement.has_points() { "points" } else { "even" };
        writeln!(out, "{placement} {spread}")?;
    }
    Ok(())
}

fn tell_lines(tell: impl Tell, keys: &mut dyn BufRead, out: &mut dyn Write) -> io::Result<()> {
    let mut line = Vec::new();
    for number in 1u64.. {
        line.clear();
        io::Read::take(&mut *keys, LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        match line.last() {
            None => break,
            Some(b'\n') => line.truncate(line.len() - 1),
            Some(_) if line.len() as u64 == LINE_BYTES_MAX => {
                let reason = format!("line {number} of standard input is longer than {LINE_BYTES_MAX} bytes");
                return Err(io::Error::new(ErrorKind::InvalidData, reason));
            }
            Some(_) => {}
        }
        tell(&line, out)?;
    }
    Ok(())
}

fn tell_hash(key: &[u8], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", fingerprint(key))
}

fn tell(table: &Table, key: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let mut places = [0; REPLICAS_MAX];
    let count = table.replicas_of(key, &mut places);
    for (rank, place) in places[..count].iter().enumerate() {
        let gap = if rank == 0 { "" } else { " " };
        write!(out, "{gap}{}", table.servers()[usize::from(*place)])?;
    }
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_routing::{Options, Placement, Router, Server};

    fn table() -> Table {
        let servers = ["a", "b", "c"].map(|name| Server::new(name, 1).with_name(name)).into();
        Router::with_options(servers, Options { replicas: 2, ..Options::new(Placement::Modulo) })
            .unwrap()
            .into()
    }

    fn printed(keys: &[u8]) -> io::Result<String> {
        let mut out = Vec::new();
        tell_lines(|key: &[u8], out: &mut dyn Write| tell(&table(), key, out), &mut &keys[..], &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn every_line_is_a_key() {
        // Of one character, the Java hash is its code: 'b' is 98, 'c' is 99, byte 255 is 255.
        assert_eq!(printed(b"b\nc\n\n\xff").unwrap(), "c a\na b\na b\na b\n");
        assert_eq!(printed(b"").unwrap(), "");
    }

    #[test]
    fn the_hash_of_a_key_is_the_front_of_its_md5() {
        let mut out = Vec::new();
        tell_lines(tell_hash, &mut &b"user:1\n\xff"[..], &mut out).unwrap();
        // printf %s user:1 | md5sum
        assert_eq!(String::from_utf8(out).unwrap(), "bdb1dd105679979c\n00594fd4f42ba43f\n");
    }

    #[test]
    fn every_placement_is_listed_with_its_way_to_spread() {
        let mut out = Vec::new();
        tell_placements(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), Placement::ALL.len());
        assert!(text.starts_with("modulo even\nring points\njump even\n"), "{text}");
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let long = vec![b'k'; LINE_BYTES_MAX as usize + 1];
        let error = printed(&long).unwrap_err().to_string();
        assert_eq!(error, "line 1 of standard input is longer than 65536 bytes");
    }
}
