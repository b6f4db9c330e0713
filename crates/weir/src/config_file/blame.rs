//! Which line of a file is to blame for what is wrong with all settings together.

use std::collections::HashMap;

use weir_proxy::{ConfigError, Layer, Subject};

use super::{FileError, ListenTable, Places, Spans, UserTable, line_of};

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
    /// Of a file that says this.
    pub(super) fn of(
        text: &str,
        of_proxy: &Spans,
        places: &Places,
        users: &[UserTable],
        rows: &[ListenTable],
    ) -> Self {
        let of_pools = places.settings.values().flat_map(|(_, spans)| spans);
        let settings = of_proxy.iter().chain(of_pools).map(|(name, span)| (Kind::Setting, *name, span.start));
        let of_servers = places.of_servers.iter().map(|(name, span)| (Kind::Setting, *name, span.start));
        let users = users.iter().map(|it| (Kind::User, it.name.get_ref().as_str(), it.name.span().start));
        let rows =
            rows.iter().map(|it| (Kind::Listen, it.address.get_ref().as_str(), it.address.span().start));
        let mut all: Vec<_> = settings.chain(of_servers).chain(users).chain(rows).collect();
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
