//! What all connections of a run share: keys, values, and the bytes of requests.
//!
//! ```text
//! keyspace   key index <-> key bytes      mix      which request comes next
//! value      values that say whose        replay   requests from a trace
//! versions   what has been written        verify   does the reply answer the request?
//! ```

pub(crate) mod keyspace;
pub(crate) mod mix;
pub(crate) mod replay;
pub(crate) mod value;
pub(crate) mod verify;
pub(crate) mod versions;

use std::io::Write;

use crate::config::Config;
use crate::content::Command;
use crate::workload::keyspace::{Keyspace, PerKey};
use crate::workload::mix::Ask;
use crate::workload::replay::{KeyName, Trace};
use crate::workload::value::{PIECE_BYTES, Values};
use crate::workload::versions::Versions;

/// Keys, values and versions of a run.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) keyspace: Keyspace,
    pub(crate) values: Values,
    pub(crate) versions: Versions,
    pub(crate) trace: Option<Trace>,
    value_sizes: PerKey,
    /// The first key that holds a number instead of a value.
    numbers_from: u64,
    /// Whether values may have pieces added to them.
    pieced: bool,
    /// Whether every number was set at the beginning, so that it is bounded by what was added since.
    numbers_known: bool,
}

impl Workload {
    /// `run` should differ between runs; see [`Versions::new`]. With a `trace`, its lines are what is asked for.
    pub(crate) fn new(config: &Config, run: u64, trace: Option<Trace>) -> Workload {
        let content = &config.content;
        let key_sizes = PerKey::new(content.key_size.clone(), config.seed ^ KEY_SIZES);
        // A trace has any number of keys: they share counts.
        let counted = if trace.is_some() { TRACE_COUNTS } else { config.all_keys() };
        let one_writer = trace.is_none() && (content.one_writer || config.connections == 1);
        Workload {
            keyspace: Keyspace::new(config.all_keys(), &content.key_prefix, content.key_first, key_sizes),
            values: Values::new(config.value_size_max()),
            versions: Versions::new(counted, run, one_writer),
            value_sizes: PerKey::new(content.value_size.clone(), config.seed ^ VALUE_SIZES),
            numbers_from: if trace.is_some() { u64::MAX } else { config.keys },
            pieced: config.is_pieced(),
            numbers_known: config.prefill && trace.is_none(),
            trace,
        }
    }

    /// The size of the value of key `index`.
    pub(crate) fn value_size(&self, index: u64) -> usize {
        self.value_sizes.of(index).min(VALUE_SIZE_DRAWN_MAX.max(self.fixed_value_size()))
    }

    fn fixed_value_size(&self) -> usize {
        self.value_sizes.fixed().unwrap_or(0)
    }

    /// Whether values may have pieces added to them.
    pub(crate) fn is_pieced(&self) -> bool {
        self.pieced
    }

    /// Whether key `index` holds a number.
    pub(crate) fn is_number(&self, index: u64) -> bool {
        index >= self.numbers_from
    }

    /// The most that the number under key `index` can be, where that is known.
    pub(crate) fn number_max(&self, index: u64) -> Option<u64> {
        self.numbers_known.then(|| self.versions.issued(index))
    }

    /// Appends the request for `ask` on `keys`: one key, or for a multi-get several. With a trace the key is `name`. A
    /// write carries `version`.
    pub(crate) fn append_request(
        &self,
        ask: &Ask,
        keys: &[u64],
        name: Option<&KeyName>,
        version: u64,
        output: &mut Vec<u8>,
    ) {
        let command = ask.command;
        output.extend_from_slice(command.name().as_bytes());
        if matches!(command, Command::Gat | Command::Gats) {
            append(output, format_args!(" {}", ask.ttl));
        }
        for &key in keys {
            output.push(b' ');
            match name {
                Some(name) => output.extend_from_slice(name.bytes()),
                None => self.keyspace.append(key, output),
            }
        }
        match command {
            Command::MetaGet => output.extend_from_slice(b" f k v"),
            Command::Touch => append(output, format_args!(" {}", ask.ttl)),
            Command::Incr | Command::Decr => output.extend_from_slice(b" 1"),
            _ if command.has_value() => self.append_value(ask, keys[0], version, output),
            _ => {}
        }
        output.extend_from_slice(b"\r\n");
    }

    /// Appends the rest of a storage request's line, and its data.
    fn append_value(&self, ask: &Ask, key: u64, version: u64, output: &mut Vec<u8>) {
        let number = self.is_number(key);
        let size = match ask.command {
            _ if number => NUMBER.len(),
            Command::Append | Command::Prepend => PIECE_BYTES,
            _ => ask.value_size.map_or_else(|| self.value_size(key), |size| size as usize),
        };
        match ask.command {
            Command::MetaSet => append(output, format_args!(" {size} F{FLAGS} T{}\r\n", ask.ttl)),
            Command::Cas => append(output, format_args!(" {FLAGS} {} {size} {}\r\n", ask.ttl, ask.cas)),
            _ => append(output, format_args!(" {FLAGS} {} {size}\r\n", ask.ttl)),
        }
        if number {
            output.extend_from_slice(NUMBER);
        } else {
            self.values.append(key, version, size, output);
        }
    }
}

fn append(output: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    output.write_fmt(text).expect("a vector takes all bytes");
}

/// Every value's flags. Not zero, so that flags that get lost are noticed.
pub(crate) const FLAGS: u32 = 0x5eed;
/// What a counter begins with.
const NUMBER: &[u8] = b"0";
/// The largest value that a distribution with a tail gives: memcached's largest item, less its header and key.
pub(crate) const VALUE_SIZE_DRAWN_MAX: usize = 1_000_000;
/// Keys of a trace share this many counts of versions.
const TRACE_COUNTS: u64 = 1 << 20;
const KEY_SIZES: u64 = 0x6b65_7973;
const VALUE_SIZES: u64 = 0x7661_6c73;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::content::Amount;
    use crate::workload::value;

    fn workload(change: impl FnOnce(&mut Settings)) -> (Config, Workload) {
        let mut settings = Settings { keys: 100, ..Settings::example() };
        change(&mut settings);
        let config = Config::check(settings).expect("the settings are valid");
        let workload = Workload::new(&config, 1, None);
        (config, workload)
    }

    fn request(workload: &Workload, ask: Ask, keys: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        workload.append_request(&ask, keys, None, 1, &mut bytes);
        bytes
    }

    #[test]
    fn requests_are_memcached_text() {
        let (_, workload) = workload(|s| {
            (s.content.key_size, s.content.value_size) = (Amount::Fixed(5), Amount::Fixed(8));
            s.content.mix = "get=1,incr=1".parse().expect("a mix");
        });
        let mut value = Vec::new();
        workload.values.append(7, 1, 8, &mut value);
        let mut piece = Vec::new();
        workload.values.append(7, 1, PIECE_BYTES, &mut piece);
        for (command, line, data) in [
            (Command::Get, "get 00007", None),
            (Command::Gets, "gets 00007", None),
            (Command::Gat, "gat 60 00007", None),
            (Command::Gats, "gats 60 00007", None),
            (Command::Set, "set 00007 24301 60 8", Some(&value)),
            (Command::Add, "add 00007 24301 60 8", Some(&value)),
            (Command::Replace, "replace 00007 24301 60 8", Some(&value)),
            (Command::Append, "append 00007 24301 60 32", Some(&piece)),
            (Command::Prepend, "prepend 00007 24301 60 32", Some(&piece)),
            (Command::Cas, "cas 00007 24301 60 8 99", Some(&value)),
            (Command::Delete, "delete 00007", None),
            (Command::Incr, "incr 00007 1", None),
            (Command::Decr, "decr 00007 1", None),
            (Command::Touch, "touch 00007 60", None),
            (Command::MetaGet, "mg 00007 f k v", None),
            (Command::MetaSet, "ms 00007 8 F24301 T60", Some(&value)),
        ] {
            let ask = Ask { ttl: 60, cas: 99, ..Ask::of(command) };
            let mut expected = [line.as_bytes(), b"\r\n"].concat();
            if let Some(data) = data {
                expected = [&expected[..], data, b"\r\n"].concat();
            }
            let found = request(&workload, ask, &[7]);
            assert_eq!(found.escape_ascii().to_string(), expected.escape_ascii().to_string());
        }
        assert_eq!(request(&workload, Ask::of(Command::Get), &[1, 20]), b"get 00001 00020\r\n");
        assert_eq!(request(&workload, Ask::of(Command::Set), &[103]), b"set 00103 24301 0 1\r\n0\r\n");
    }

    #[test]
    fn every_value_of_a_key_has_the_same_size() {
        let (_, workload) = workload(|s| s.content.value_size = Amount::EtcValue);
        let sizes: Vec<usize> = (0..100).map(|key| workload.value_size(key)).collect();
        assert!(sizes.iter().any(|&size| size != sizes[0]));
        for (key, &size) in sizes.iter().enumerate() {
            let bytes = request(&workload, Ask::of(Command::Set), &[key as u64]);
            let data = &bytes[bytes.len() - 2 - size..bytes.len() - 2];
            assert!(value::verify(key as u64, data).is_ok());
        }
    }

    #[test]
    fn no_request_is_longer_than_the_config_says() {
        for (multiget, value_size) in [(1, 1000), (50, 10)] {
            let (config, workload) = workload(|s| {
                (s.content.multiget, s.content.value_size) =
                    (Amount::Fixed(multiget), Amount::Fixed(value_size));
                s.content.mix = "get=1,append=1".parse().expect("a mix");
            });
            let keys: Vec<u64> = (0..multiget).collect();
            for command in Command::ALL {
                let ask = Ask { ttl: 2_592_000, cas: u64::MAX, ..Ask::of(command) };
                let keys = if command.takes_many() { &keys[..] } else { &keys[..1] };
                assert!(request(&workload, ask, keys).len() <= config.request_bytes_max());
            }
        }
    }
}
