//! The commands of a run and their shares.

use std::fmt;
use std::str::FromStr;

use weir_protocol::Expected;
use weir_timing::Operation;

/// A command of memcached's text protocols that a run can be asked to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// `get`, of one key or several.
    Get,
    /// `gets`, of one key or several.
    Gets,
    /// `gat`: get and touch.
    Gat,
    /// `gats`.
    Gats,
    /// `set`.
    Set,
    /// `add`.
    Add,
    /// `replace`.
    Replace,
    /// `append`.
    Append,
    /// `prepend`.
    Prepend,
    /// `cas`: a `gets`, and with the token that it brings a `cas`.
    Cas,
    /// `delete`.
    Delete,
    /// `incr`, of a key that holds a number.
    Incr,
    /// `decr`, of a key that holds a number.
    Decr,
    /// `touch`.
    Touch,
    /// `mg`, the meta protocol's get.
    MetaGet,
    /// `ms`, the meta protocol's set.
    MetaSet,
}

impl Command {
    /// Every command, in the order of their declaration.
    pub const ALL: [Command; 16] = [
        Command::Get,
        Command::Gets,
        Command::Gat,
        Command::Gats,
        Command::Set,
        Command::Add,
        Command::Replace,
        Command::Append,
        Command::Prepend,
        Command::Cas,
        Command::Delete,
        Command::Incr,
        Command::Decr,
        Command::Touch,
        Command::MetaGet,
        Command::MetaSet,
    ];

    /// The word that begins its requests.
    pub const fn name(self) -> &'static str {
        match self {
            Command::Get => "get",
            Command::Gets => "gets",
            Command::Gat => "gat",
            Command::Gats => "gats",
            Command::Set => "set",
            Command::Add => "add",
            Command::Replace => "replace",
            Command::Append => "append",
            Command::Prepend => "prepend",
            Command::Cas => "cas",
            Command::Delete => "delete",
            Command::Incr => "incr",
            Command::Decr => "decr",
            Command::Touch => "touch",
            Command::MetaGet => "mg",
            Command::MetaSet => "ms",
        }
    }

    /// Under which operation a request is counted.
    pub(crate) const fn operation(self, keys: usize) -> Operation {
        match self {
            Command::Get | Command::Gets if keys > 1 => Operation::MultiGet,
            Command::Get | Command::Gets | Command::MetaGet => Operation::Get,
            Command::Gat | Command::Gats => Operation::Gat,
            Command::Set | Command::MetaSet => Operation::Set,
            Command::Add => Operation::Add,
            Command::Replace => Operation::Replace,
            Command::Append => Operation::Append,
            Command::Prepend => Operation::Prepend,
            Command::Cas => Operation::Cas,
            Command::Delete => Operation::Delete,
            Command::Incr => Operation::Incr,
            Command::Decr => Operation::Decr,
            Command::Touch => Operation::Touch,
        }
    }

    /// The replies that fit it.
    pub(crate) const fn expected(self) -> Expected {
        match self {
            Command::Get | Command::Gets | Command::Gat | Command::Gats => Expected::Retrieval,
            Command::Set
            | Command::Add
            | Command::Replace
            | Command::Append
            | Command::Prepend
            | Command::Cas => Expected::Storage,
            Command::Delete => Expected::Deletion,
            Command::Incr | Command::Decr => Expected::Arithmetic,
            Command::Touch => Expected::Touch,
            Command::MetaGet | Command::MetaSet => Expected::Meta,
        }
    }

    /// Whether its replies bring values.
    pub(crate) const fn is_read(self) -> bool {
        matches!(self, Command::Get | Command::Gets | Command::Gat | Command::Gats | Command::MetaGet)
    }

    /// Whether it may ask for several keys at once.
    pub(crate) const fn takes_many(self) -> bool {
        matches!(self, Command::Get | Command::Gets)
    }

    /// Whether it changes a value, so that a later read must not bring an older one.
    pub(crate) const fn is_write(self) -> bool {
        matches!(
            self,
            Command::Set
                | Command::MetaSet
                | Command::Add
                | Command::Replace
                | Command::Append
                | Command::Prepend
                | Command::Cas
                | Command::Delete
        )
    }

    /// Whether it counts. Such commands have keys of their own.
    pub(crate) const fn is_arithmetic(self) -> bool {
        matches!(self, Command::Incr | Command::Decr)
    }

    /// Whether its request carries a value.
    pub(crate) const fn has_value(self) -> bool {
        self.is_write() && !matches!(self, Command::Delete)
    }
}

impl FromStr for Command {
    type Err = String;

    fn from_str(text: &str) -> Result<Command, String> {
        Command::ALL.into_iter().find(|command| command.name() == text).ok_or_else(|| {
            let names = Command::ALL.map(Command::name).join(", ");
            format!("{text:?} is no command that can be sent; known are {names}")
        })
    }
}

/// The commands of a run, each with the share of requests that it makes up.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    /// Commands and their shares, which add up to 1.
    shares: Vec<(Command, f64)>,
}

impl Mix {
    /// A mix of `set` and `get`.
    pub fn of_writes(writes: f64) -> Mix {
        let shares = [(Command::Get, 1.0 - writes), (Command::Set, writes)];
        Mix { shares: shares.into_iter().filter(|(_, share)| *share != 0.0).collect() }
    }

    /// A mix of commands with weights, of which at least one is above 0.
    pub fn of_weights(weights: impl IntoIterator<Item = (Command, f64)>) -> Result<Mix, String> {
        let mut shares: Vec<(Command, f64)> = Vec::new();
        for (command, weight) in weights {
            if !weight.is_finite() || weight < 0.0 {
                return Err(format!("{}={weight}: a weight is a number of at least 0", command.name()));
            }
            match shares.iter_mut().find(|(known, _)| *known == command) {
                Some((_, share)) => *share += weight,
                None if weight > 0.0 => shares.push((command, weight)),
                None => {}
            }
        }
        let total: f64 = shares.iter().map(|(_, weight)| weight).sum();
        if total <= 0.0 || !total.is_finite() {
            return Err("a mix needs at least one command with a weight above 0".to_owned());
        }
        shares.iter_mut().for_each(|(_, share)| *share /= total);
        Ok(Mix { shares })
    }

    /// Commands and their shares, which add up to 1.
    pub fn shares(&self) -> &[(Command, f64)] {
        &self.shares
    }

    /// The command below which a share `quantile` of all requests lies.
    #[inline]
    pub(crate) fn at(&self, quantile: f64) -> Command {
        let mut rest = quantile;
        for &(command, share) in &self.shares {
            if rest < share {
                return command;
            }
            rest -= share;
        }
        // Rounding may leave a rest behind the last share.
        self.shares[self.shares.len() - 1].0
    }

    /// Whether any command of the mix is one for which `is` holds.
    pub(crate) fn any(&self, is: impl Fn(Command) -> bool) -> bool {
        self.shares.iter().any(|&(command, _)| is(command))
    }

    /// Share of the requests that change something.
    pub(crate) fn write_ratio(&self) -> f64 {
        let writes = self.shares.iter().filter(|(command, _)| command.is_write() || command.is_arithmetic());
        writes.map(|(_, share)| share).sum()
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (command, share)) in self.shares.iter().enumerate() {
            write!(f, "{}{}={share}", if number == 0 { "" } else { "," }, command.name())?;
        }
        Ok(())
    }
}

impl FromStr for Mix {
    type Err = String;

    /// `get=0.9,set=0.1`; weights need not add up to 1.
    fn from_str(text: &str) -> Result<Mix, String> {
        let weights = text
            .split(',')
            .map(|part| {
                let (command, weight) = part
                    .split_once('=')
                    .ok_or_else(|| format!("{part:?} has no weight: a mix is written get=0.9,set=0.1"))?;
                let weight =
                    weight.trim().parse().map_err(|_| format!("{part:?}: the weight is no number"))?;
                Ok((command.trim().parse()?, weight))
            })
            .collect::<Result<Vec<_>, String>>()?;
        Mix::of_weights(weights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_read_scaled_and_written() {
        let mix: Mix = "get=9,set=0.5,set=0.5,touch=0".parse().expect("a mix");
        assert_eq!(mix.to_string(), "get=0.9,set=0.1");
        assert_eq!(mix, Mix::of_writes(0.1));
        for bad in ["", "get", "get=", "fetch=1", "get=-1", "get=0", "get=NaN", "get=inf"] {
            assert!(bad.parse::<Mix>().is_err(), "{bad}");
        }
    }

    #[test]
    fn commands_are_found_by_their_names_and_shares() {
        for command in Command::ALL {
            assert_eq!(command.name().parse(), Ok(command));
        }
        let mix: Mix = "get=1,gats=2,ms=1".parse().expect("a mix");
        assert_eq!(
            [0.0, 0.24, 0.25, 0.74, 0.75, 1.0].map(|at| mix.at(at).name()),
            ["get", "get", "gats", "gats", "ms", "ms"]
        );
        assert_eq!(Mix::of_writes(0.0).at(0.999_999), Command::Get);
        assert_eq!(Mix::of_writes(1.0).at(0.0), Command::Set);
    }
}
