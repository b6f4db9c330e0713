//! What follows from what is sent: its bounds, and the sizes of requests and replies.

use weir_timing::Operation;

use super::{Config, ConfigError, Settings, within};
use crate::content::{Amount, Command};
use crate::workload::VALUE_SIZE_DRAWN_MAX;
use crate::workload::keyspace::{KEY_SIZE_MAX, digits};
use crate::workload::replay::TRACE_VALUE_SIZE_MAX;
use crate::workload::value::{self, PIECE_BYTES};

impl Config {
    /// Keys of values, and behind them as many keys of numbers where the run counts.
    pub(crate) fn all_keys(&self) -> u64 {
        all_keys(self)
    }

    /// The largest value that is written at once, in bytes.
    pub(crate) fn value_size_max(&self) -> usize {
        if self.replay.is_some() {
            return TRACE_VALUE_SIZE_MAX;
        }
        match self.content.value_size {
            Amount::Fixed(size) => size as usize,
            ref drawn => drawn.most(VALUE_SIZE_DRAWN_MAX as u64) as usize,
        }
    }

    /// Whether values may have pieces added to them.
    pub(crate) fn is_pieced(&self) -> bool {
        let adds = |command| matches!(command, Command::Append | Command::Prepend);
        self.replay.is_some() || self.content.mix.any(adds)
    }

    /// The operations that this run can be asked to count; a trace can bring any.
    pub(crate) fn operations(&self) -> Vec<Operation> {
        let content = &self.content;
        let many = content.multiget.most(MULTIGET_MAX) as usize;
        let mut operations = Vec::new();
        let commands = if self.replay.is_some() { &[] } else { content.mix.shares() };
        for &(command, _) in commands {
            if command.takes_many() {
                operations.push(command.operation(content.multiget.least().max(1) as usize));
                operations.push(command.operation(many));
            } else {
                operations.push(command.operation(1));
            }
            if command == Command::Cas {
                operations.push(Operation::Get);
            }
        }
        // `weir.load/1` has always had a row for each of these two.
        if !operations.iter().any(|operation| matches!(operation, Operation::Get | Operation::MultiGet)) {
            operations.push(Command::Get.operation(many));
        }
        operations.push(Operation::Set);
        operations.sort_unstable();
        operations.dedup();
        operations
    }

    /// The longest reply that a right answer to any request of this run can be, in bytes.
    pub(crate) fn reply_bytes_max(&self) -> usize {
        let pieces = if self.is_pieced() { PIECES_MAX * PIECE_BYTES } else { 0 };
        let value = "VALUE ".len()
            + self.key_size_max()
            + REPLY_NUMBERS
            + self.value_size_max()
            + pieces
            + "\r\n".len();
        ERROR_LINE_BYTES_MAX.max(self.multiget_max() * value + "END\r\n".len())
    }

    /// The longest request of this run, in bytes.
    pub(crate) fn request_bytes_max(&self) -> usize {
        let value = self.value_size_max().max(PIECE_BYTES);
        let set = "prepend ".len() + self.key_size_max() + REPLY_NUMBERS + value + "\r\n".len();
        let get = "gets".len() + self.multiget_max() * (1 + self.key_size_max()) + "\r\n".len();
        set.max(get)
    }

    /// What a request takes on average, in bytes.
    pub(super) fn request_bytes_mean(&self) -> u64 {
        let value = self.content.value_size.mean(VALUE_SIZE_DRAWN_MAX as u64) as u64;
        let most = self.request_bytes_max() as u64;
        if self.replay.is_some() {
            most.min(64 << 10)
        } else {
            most.min(REPLY_NUMBERS as u64 + KEY_SIZE_MAX as u64 + 4 * value)
        }
    }

    fn key_size_max(&self) -> usize {
        match self.content.key_size {
            _ if self.replay.is_some() => KEY_SIZE_MAX,
            Amount::Fixed(size) => (size as usize)
                .max(self.content.key_prefix.len() + digits(self.content.key_first + self.all_keys() - 1)),
            _ => KEY_SIZE_MAX,
        }
    }

    fn multiget_max(&self) -> usize {
        self.content.multiget.most(MULTIGET_MAX) as usize
    }
}

pub(super) fn check_content(settings: &Settings) -> Result<(), ConfigError> {
    let content = &settings.content;
    let refuse = |reason: String| Err(ConfigError::Content(reason));
    let prefix = content.key_prefix.as_bytes();
    if prefix.len() > KEY_PREFIX_MAX || prefix.iter().any(|&byte| byte <= b' ' || byte == 0x7f) {
        return refuse(format!(
            "--key-prefix: at most {KEY_PREFIX_MAX} bytes, without spaces and control characters"
        ));
    }
    within("--key-first", content.key_first, 0, KEY_FIRST_MAX)?;
    let needed = (prefix.len() + digits(content.key_first + all_keys(settings) - 1)) as u64;
    // Sizes from a distribution are cut off where a key or a value can be no shorter or longer.
    if let Amount::Fixed(size @ 1..) = content.key_size {
        within("--key-size", size, needed, KEY_SIZE_MAX as u64)?;
    }
    if let Amount::Fixed(size) = content.value_size {
        within("--value-size", size, 0, VALUE_SIZE_MAX)?;
    }
    reaches_below("--key-size", &content.key_size, KEY_SIZE_MAX)?;
    reaches_below("--value-size", &content.value_size, VALUE_SIZE_DRAWN_MAX)?;
    amount_within("--multiget", &content.multiget, 1, MULTIGET_MAX.min(settings.keys))?;
    if let Some(requests) = &content.reconnect_after {
        amount_within("--reconnect-after", requests, 1, u64::MAX)?;
    }
    if let Some(requests) = content.requests {
        within("--requests", requests, 1, u64::MAX)?;
    }
    if let Some(fault) = content.popularity.fault() {
        return refuse(format!("--popularity {}: {fault}", content.popularity));
    }
    if content.one_writer && settings.keys < settings.connections as u64 {
        return refuse(format!(
            "--one-writer: {} connections cannot have a key each out of {}; raise --keys or lower --connections",
            settings.connections, settings.keys
        ));
    }
    if content.one_writer && settings.replay.is_some() {
        return refuse(
            "--one-writer: a trace says who writes what; leave one of --one-writer and --replay out"
                .to_owned(),
        );
    }
    Ok(())
}

/// Sizes that are drawn are cut off at `most` bytes. Where all of them lie above, none would be as given.
fn reaches_below(flag: &str, given: &Amount, most: usize) -> Result<(), ConfigError> {
    if matches!(given, Amount::Fixed(_)) || given.least() <= most as u64 {
        return Ok(());
    }
    Err(ConfigError::Content(format!(
        "{flag} {given}: sizes that are drawn are cut off at {most} bytes, and all of these lie above"
    )))
}

/// A distribution all of whose amounts lie between two bounds.
fn amount_within(flag: &'static str, given: &Amount, least: u64, most: u64) -> Result<(), ConfigError> {
    if (least..=most).contains(&given.least()) && given.most(u64::MAX) <= most {
        Ok(())
    } else {
        Err(ConfigError::Amount { flag, given: given.clone(), least, most })
    }
}

fn all_keys(settings: &Settings) -> u64 {
    let counts = settings.content.mix.any(Command::is_arithmetic) && settings.replay.is_none();
    if counts { 2 * settings.keys } else { settings.keys }
}

const VALUE_SIZE_MAX: u64 = 64 << 20;
const MULTIGET_MAX: u64 = 10_000;
const KEY_PREFIX_MAX: usize = 200;
const KEY_FIRST_MAX: u64 = 1_000_000_000_000;
/// Room for pieces that were added to a value, far more than [`crate::connection`] adds between two `set`.
const PIECES_MAX: usize = 1024;
/// Room for flags, size, cas and the spaces and line end around them.
const REPLY_NUMBERS: usize = 64;
/// Room for the longest error line: a proxy may name servers in it.
const ERROR_LINE_BYTES_MAX: usize = 4096;

const _: () = assert!(value::HEADER_BYTES < ERROR_LINE_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::super::tests::{check, refused_flag};
    use super::*;

    #[test]
    fn keys_must_fit_their_size() {
        assert!(check(|s| (s.keys, s.content.key_size) = (10_000, Amount::Fixed(4))).is_ok());
        assert!(
            refused_flag(|s| (s.keys, s.content.key_size) = (10_001, Amount::Fixed(4)))
                .contains("between 5 and 250")
        );
        assert!(check(|s| (s.keys, s.content.key_size) = (1, Amount::Fixed(1))).is_ok());
        assert!(
            check(|s| (s.keys, s.content.key_size) = (10_001, Amount::Fixed(0))).is_ok(),
            "as long as needed"
        );
    }

    #[test]
    fn sizes_that_would_all_be_cut_off_are_refused() {
        let amount = |text: &str| text.parse::<Amount>().expect("an amount");
        for bad in ["2000000-4000000", "1000001=1", "2000000=1,3000000=2", "pareto:2000000,1,0"] {
            let error = refused_flag(|s| s.content.value_size = amount(bad));
            assert!(error.starts_with(&format!("--value-size {bad}: sizes that are drawn")), "{error}");
        }
        for good in ["2000000", "1000000-4000000", "1=1,3000000=2", "etc-value"] {
            assert!(check(|s| s.content.value_size = amount(good)).is_ok(), "{good}");
        }
        assert!(refused_flag(|s| s.content.key_size = amount("300-400")).starts_with("--key-size 300-400: "));
        assert!(check(|s| s.content.key_size = amount("200-400")).is_ok());
    }

    #[test]
    fn a_multi_get_asks_for_no_more_keys_than_there_are() {
        assert!(check(|s| (s.keys, s.content.multiget) = (10, Amount::Fixed(10))).is_ok());
        assert!(check(|s| (s.keys, s.content.multiget) = (20_000, Amount::Fixed(10_000))).is_ok());
        assert!(
            refused_flag(|s| (s.keys, s.content.multiget) = (20_000, Amount::Fixed(10_001)))
                .contains("between 1 and 10000")
        );
        assert!(
            refused_flag(|s| (s.keys, s.content.multiget) = (10, Amount::Fixed(11)))
                .contains("between 1 and 10")
        );
    }

    #[test]
    fn operations_are_those_of_the_mix() {
        let operations = |mix: &str, multiget: &str| {
            let config = check(|s| {
                s.content.mix = mix.parse().expect("a mix");
                s.content.multiget = multiget.parse().expect("an amount");
            });
            config
                .expect("the settings are valid")
                .operations()
                .iter()
                .map(|name| name.name())
                .collect::<Vec<_>>()
        };
        assert_eq!(operations("get=1", "1"), ["get", "set"]);
        assert_eq!(operations("set=1", "6"), ["multiget", "set"]);
        assert_eq!(operations("gets=1,cas=1,mg=1,incr=1", "1-9"), ["get", "multiget", "set", "cas", "incr"]);
    }
}
