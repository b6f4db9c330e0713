//! What can be set for a proxy, and what is in force.
//!
//! ```text
//!   table.rs, a row per setting ──▶ flags, variables, keys of the file, their checks (crates/weir); docs/reference/configuration.md
//!
//!   flags, variables ┐  Layer   ┌──────────┐  Config::new  ┌────────┐
//!   the file         ├─────────▶│ Settings │──────────────▶│ Config │──▶ /config, stats settings, what a reload reports
//!   its pools        ┘  over()  └──────────┘               └────────┘
//! ```
//!
//! A [`Setting`] is one row of a [`Table`]. A [`Layer`] is what one place says: texts by name, each checked by its row. [`Settings`] and
//! [`PoolSettings`] are the values of all rows, where no layer says anything the default. Begin at `table.rs`.

mod kinds;
mod table;
mod words;

pub use kinds::Form;
pub(crate) use table::SPLIT_THREADS_MAX;
pub use table::{PoolSettings, Settings};
pub(crate) use words::CrewPolicy;
pub use words::{Engine, LogFormat, LogLevel};

use kinds::Kind;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// One row of a table: everything about a setting but the type of its value.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// As the file and reports write it.
    pub name: &'static str,
    /// For people who see it first.
    pub help: &'static str,
    /// Under which heading the help has it.
    pub heading: &'static str,
    /// What stands for its value in the help.
    pub value: &'static str,
    /// How the file writes it.
    pub form: Form,
    /// As a flag takes it; nothing where the setting is then not set, or depends on the machine.
    pub default: &'static str,
    /// The least value, if there is one, as a flag takes it.
    pub least: &'static str,
    /// The largest.
    pub most: &'static str,
    /// What would happen beyond them.
    pub why: &'static str,
    /// Whether a reload changes it. Otherwise the proxy has to be started anew.
    pub reloads: bool,
    /// The engines that it is for, if not for all: elsewhere it is refused.
    pub engines: &'static [Engine],
    /// Where it may be said.
    pub place: Place,
    /// The words that it takes, each with its meaning, if it takes words.
    pub words: &'static [(&'static str, &'static str)],
    /// Whether the help lists them.
    pub lists_words: bool,
    /// For tests and benchmarks: not in the help.
    pub hidden: bool,
    check: fn(&Self, &str) -> Result<Option<String>, String>,
}

/// Where a setting may be said, beside flags and environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In `[proxy]` of the file.
    Proxy,
    /// There, or in the pool that takes the keys that no route takes.
    DefaultPool,
    /// There, or in pools: those that are served together say the same.
    AllPools,
    /// There, or in a pool, or for one server; the narrowest counts.
    Server,
    /// In each pool.
    Pool,
    /// As a flag alone.
    Flag,
}

/// All that is said where a pool and one of its servers, by their names, have something of their own.
pub type SaidOfServers = HashMap<(String, String), Layer>;

impl Setting {
    /// What rows do not say: a setting of this kind, said in `[proxy]`, for all engines, until the next start.
    const fn of<K: Kind>(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help: help.trim_ascii(),
            heading: "",
            value: K::NAME,
            form: K::FORM,
            default: "",
            least: "",
            most: "",
            why: "",
            reloads: false,
            engines: &[],
            place: Place::Proxy,
            words: K::WORDS,
            lists_words: false,
            hidden: false,
            check: kinds::check::<K>,
        }
    }

    /// As the command line writes it, without its dashes in front.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// Its help, with the engines that it is for, and the default.
    pub fn help_text(&self) -> String {
        let mut text = self.help.to_owned();
        if !self.engines.is_empty() {
            text += &format!(" (engine {})", self.engine_names());
        }
        if !self.default.is_empty() {
            text += &format!(" [default: {}]", self.default);
        }
        text
    }

    /// The engines that it is for, if not for all.
    pub(crate) fn engine_names(&self) -> String {
        self.engines.iter().map(|engine| engine.name()).collect::<Vec<_>>().join(" or ")
    }

    /// Whether it takes this text; what it is kept as.
    pub fn check(&self, text: &str) -> Result<String, String> {
        (self.check)(self, text).map(Option::unwrap_or_default)
    }

    /// The value as JSON: what is a number or a truth value in the file is one here.
    fn json(&self, text: Option<&str>) -> Value {
        match (text, self.form) {
            (None, _) => Value::Null,
            (Some(text), Form::Number | Form::Share | Form::Truth) => {
                serde_json::from_str(text).unwrap_or_else(|_| text.into())
            }
            (Some(text), Form::Text | Form::Time | Form::Size) => text.into(),
        }
    }
}

/// Rows, and a value for each.
pub trait Table: Sized {
    /// All rows, in the order of the help.
    const ROWS: &'static [Setting];

    /// What holds if a layer is all that is said.
    fn of(layer: &Layer) -> Self;

    /// Each row with its value as a flag takes it, if it is set.
    fn entries(&self) -> Vec<(&'static Setting, Option<String>)>;

    /// Takes over what a reload changes.
    fn take_reloadable(&mut self, read: &Self);

    /// As JSON, by name.
    fn json(&self) -> Value {
        let entries = self.entries().into_iter();
        entries.map(|(row, text)| (row.name.to_owned(), row.json(text.as_deref()))).collect()
    }

    /// What of a table that was read again only a restart would change, a line each.
    fn unchangeable(&self, read: &Self) -> Vec<String> {
        let shown = |text: Option<String>| text.unwrap_or_else(|| "unset".to_owned());
        let pairs = self.entries().into_iter().zip(read.entries());
        pairs
            .filter(|((row, now), (_, then))| !row.reloads && now != then)
            .map(|((row, now), (_, then))| {
                format!("{} stays {}: {} needs a restart", row.flag(), shown(now), shown(then))
            })
            .collect()
    }
}

/// What one place says: names of settings, with texts that they take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer(BTreeMap<&'static str, String>);

impl Layer {
    /// Says something more, if it is a value of that setting.
    pub fn say(&mut self, row: &'static Setting, text: &str) -> Result<(), String> {
        self.0.insert(row.name, row.check(text)?);
        Ok(())
    }

    /// The same for a setting by its name.
    ///
    /// # Panics
    ///
    /// If there is no such setting.
    pub fn with(mut self, name: &str, text: &str) -> Result<Self, String> {
        let row = Settings::ROWS.iter().find(|row| row.name == name).expect("the setting is in the table");
        self.say(row, text)?;
        Ok(self)
    }

    /// What this layer says, and else what the one below it says. A certificate of this layer has no key of the one below.
    #[must_use]
    pub fn over(mut self, below: Self) -> Self {
        let mut below = below.0;
        for (key, _) in KEYS.iter().filter(|(_, chain)| self.0.contains_key(chain)) {
            below.remove(key);
        }
        for (name, text) in below {
            self.0.entry(name).or_insert(text);
        }
        self
    }

    /// What it says of a setting.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// Which key belongs to which certificate: where nothing is said of the key, it stands in the file of the certificate.
const KEYS: [(&str, &str); 2] = [("tls_key", "tls_cert"), ("server_key", "server_cert")];

#[cfg(test)]
mod tests;
