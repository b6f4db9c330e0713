//! Why a file is refused, and which line of it is to blame.

use std::collections::HashMap;
use std::fmt;

use weir_proxy::{ConfigError, Layer, Subject};

/// Why a file is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) struct FileError {
    /// As it was given.
    pub(super) file: String,
    /// From 1, where one line is at fault.
    pub(super) line: Option<usize>,
    pub(super) reason: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(formatter, "{}:{line}: {}", self.file, self.reason),
            None => write!(formatter, "{}: {}", self.file, self.reason),
        }
    }
}

/// The number of the line that begins or goes on after `before`.
pub(super) fn line_of(before: &[u8]) -> usize {
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Where a file says what.
#[derive(Debug)]
pub(crate) struct Lines {
    file: String,
    /// `None` of what stands in several lines: which of them is to blame, an error does not say.
    of: HashMap<(Kind, String), Option<usize>>,
}

/// What has a name of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Setting,
    Listen,
    User,
}

impl Lines {
    /// Of a file: names of settings, of users and addresses of places, each with the byte where it stands.
    pub(super) fn of<'a>(
        text: &str,
        settings: impl Iterator<Item = (&'a str, usize)>,
        users: impl Iterator<Item = (&'a str, usize)>,
        places: impl Iterator<Item = (&'a str, usize)>,
    ) -> Self {
        let of = |kind| move |(name, start)| (kind, name, start);
        let all = settings.map(of(Kind::Setting)).chain(users.map(of(Kind::User)));
        let mut all: Vec<(Kind, &str, usize)> = all.chain(places.map(of(Kind::Listen))).collect();
        all.sort_by_key(|(_, _, start)| *start);
        // In one pass: a file may have very many users.
        let (mut of, mut line, mut counted) = (HashMap::new(), 1, 0);
        for (kind, name, start) in all {
            let start = start.min(text.len());
            line += line_of(&text.as_bytes()[counted..start]) - 1;
            counted = start;
            of.entry((kind, name.to_owned())).and_modify(|line| *line = None).or_insert(Some(line));
        }
        Self { file: String::new(), of }
    }

    /// The same, of a file called so.
    pub(super) fn called(self, file: &str) -> Self {
        Self { file: file.to_owned(), ..self }
    }

    /// The error with the file in front, and the line if one is to blame; `None` if it is not the file's: `said` by flags and environment
    /// goes before it, and so does its fault.
    pub(crate) fn blamed(&self, error: &ConfigError, said: &Layer) -> Option<FileError> {
        let (kind, name) = match error.subject() {
            Some(Subject::Setting(name)) => (Kind::Setting, name.replace('-', "_")),
            Some(Subject::Listen(address)) => (Kind::Listen, address.to_owned()),
            Some(Subject::User(name)) => (Kind::User, name.to_owned()),
            None => return Some(self.error(None, error)),
        };
        if kind == Kind::Setting && said.get(&name).is_some() {
            return None;
        }
        let line = self.of.get(&(kind, name)).or_else(|| match error {
            // `[[listen]]` stands in the place of the setting.
            ConfigError::Resolve { setting: "listen", address, .. } => {
                self.of.get(&(Kind::Listen, address.clone()))
            }
            _ => None,
        });
        Some(self.error(line.copied().flatten(), error))
    }

    fn error(&self, line: Option<usize>, error: &ConfigError) -> FileError {
        FileError { file: self.file.clone(), line, reason: error.to_string() }
    }
}
