//! Settings as the command line and the environment say them: a flag and a variable for each row of a table.
//!
//! The rows, and what may be said, are in the crate `weir-proxy` (`settings/table.rs`). What the file says is read by `config_file.rs`.

use std::marker::PhantomData;

use clap::builder::{BoolishValueParser, PossibleValue, PossibleValuesParser, TypedValueParser, ValueParser};
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use weir_proxy::{Form, Layer, Place, Setting, Table};

/// What flags and environment say of the settings of one table.
#[derive(Clone, Debug)]
pub(crate) struct Flags<T> {
    layer: Layer,
    table: PhantomData<T>,
}

impl<T> Flags<T> {
    pub(crate) const fn layer(&self) -> &Layer {
        &self.layer
    }
}

impl<T: Table> Args for Flags<T> {
    fn augment_args(command: Command) -> Command {
        command.args(T::ROWS.iter().map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Table> FromArgMatches for Flags<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut layer = Layer::default();
        for row in T::ROWS {
            if let Some(text) = matches.get_one::<String>(row.name) {
                layer.say(row, text).expect("the value parser has checked it");
            }
        }
        Ok(Self { layer, table: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn arg(row: &'static Setting) -> Arg {
    let arg = Arg::new(row.name)
        .long(row.flag())
        .value_name(row.value)
        .help(row.help_text())
        .help_heading(row.heading)
        .hide(row.hidden)
        // The help says once how variables are named.
        .hide_env(true)
        .hide_possible_values(!row.words.is_empty() && !row.lists_words)
        .value_parser(parser(row));
    let arg = match row.form {
        Form::Truth => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
        _ => arg,
    };
    if row.place == Place::Flag { arg } else { arg.env(variable(&row.flag())) }
}

fn parser(row: &'static Setting) -> ValueParser {
    if row.form == Form::Truth {
        return BoolishValueParser::new().map(|truth| truth.to_string()).into();
    }
    if row.words.is_empty() {
        return ValueParser::from(move |text: &str| row.check(text));
    }
    let words = row.words.iter().map(|(name, about)| match row.lists_words {
        true => PossibleValue::new(*name).help(*about),
        false => PossibleValue::new(*name),
    });
    PossibleValuesParser::new(words).try_map(|text| row.check(&text)).into()
}

/// The variable of the environment that stands for a flag.
pub(crate) fn variable(flag: &str) -> String {
    format!("WEIR_{}", flag.trim_start_matches('-').replace('-', "_").to_uppercase())
}
