//! `weir load --like TOOL …`: the options of another load generator, said in those of `weir load`.
//!
//! An option that has no equal is refused with what to do instead; one that changes nothing that is measured is left out
//! with a note. Nothing is left out silently.

mod memaslap;
mod memtier;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::fail;

/// A command line of another tool as one of `weir load`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Translation {
    /// The flags of `weir load`.
    flags: Vec<String>,
    /// What the user should know about the difference.
    notes: Vec<String>,
}

/// What `weir load --like …` is asked to do.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    translation: Translation,
    /// Whether the command line is only shown.
    print: bool,
}

/// The words of a command line, those of `weir load --like TOOL …` as `weir load` has them. `Err`: there is nothing more to do.
pub(crate) fn expand(words: Vec<OsString>) -> Result<Vec<OsString>, ExitCode> {
    let [program, load, rest @ ..] = &words[..] else { return Ok(words) };
    if load != "load" {
        return Ok(words);
    }
    // Words that are no text are for clap to refuse.
    let Some(rest) = rest.iter().map(|word| word.to_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
    else {
        return Ok(words);
    };
    let request = match translate(&rest) {
        None => return Ok(words),
        Some(Ok(request)) => request,
        Some(Err(error)) => return Err(fail(2, &error)),
    };
    for note in &request.translation.notes {
        let _ = writeln!(io::stderr(), "note: {note}");
    }
    if request.print {
        let printed = writeln!(io::stdout(), "{}", request.translation.line());
        return Err(printed.map_or_else(|error| fail(1, &error), |()| ExitCode::SUCCESS));
    }
    let flags = request.translation.flags.into_iter().map(OsString::from);
    Ok([program.clone(), load.clone()].into_iter().chain(flags).collect())
}

/// Reads the words behind `weir load`. `None`: they do not begin with `--like`.
fn translate(words: &[String]) -> Option<Result<Request, String>> {
    let (tool, rest) = match words {
        [first, tool, rest @ ..] if first == "--like" => (tool.as_str(), rest),
        [first, rest @ ..] => (first.strip_prefix("--like=")?, rest),
        [] => return None,
    };
    let (print, rest) = match rest {
        [first, rest @ ..] if first == "--print" => (true, rest),
        rest => (false, rest),
    };
    let translated = match tool {
        "memtier" | "memtier_benchmark" => memtier::translate(rest),
        "memaslap" | "memcaslap" => memaslap::translate(rest, &|path| std::fs::read_to_string(path)),
        other => Err(format!("--like {other}: the tools that are known are memtier and memaslap")),
    };
    Some(translated.map(|translation| Request { translation, print }))
}

impl Translation {
    #[expect(clippy::needless_pass_by_value, reason = "texts and numbers are handed over as they come")]
    fn flag(&mut self, name: &str, value: impl ToString) {
        self.flags.extend([name.to_owned(), value.to_string()]);
    }

    fn switch(&mut self, name: &str) {
        self.flags.push(name.to_owned());
    }

    fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// The command line as one could type it.
    fn line(&self) -> String {
        let quoted = self.flags.iter().map(|word| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/[]".contains(c);
            if !word.is_empty() && word.chars().all(plain) {
                word.clone()
            } else {
                format!("'{}'", word.replace('\'', r"'\''"))
            }
        });
        ["weir".to_owned(), "load".to_owned()].into_iter().chain(quoted).collect::<Vec<_>>().join(" ")
    }
}

/// What becomes of an option of another tool.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// It is translated.
    Taken,
    /// It is left out, with this note.
    LeftOut(&'static str),
    /// It is refused, with what to do instead.
    Refused(&'static str),
}

/// An option of another tool.
#[derive(Debug, Clone, Copy)]
struct Known {
    long: &'static str,
    short: Option<char>,
    has_value: bool,
    fate: Fate,
}

const fn taken(long: &'static str, short: Option<char>) -> Known {
    Known { long, short, has_value: true, fate: Fate::Taken }
}

const fn left_out(long: &'static str, short: Option<char>, has_value: bool, note: &'static str) -> Known {
    Known { long, short, has_value, fate: Fate::LeftOut(note) }
}

const fn refused(long: &'static str, short: Option<char>, has_value: bool, advice: &'static str) -> Known {
    Known { long, short, has_value, fate: Fate::Refused(advice) }
}

/// The options on a command line by their long names; of one that is given twice the last counts.
#[derive(Debug, Default)]
struct Given(BTreeMap<&'static str, String>);

impl Given {
    /// Reads `words` as options of `known`, and notes those that are left out.
    fn read(tool: &str, words: &[String], known: &[Known], into: &mut Translation) -> Result<Given, String> {
        let mut given = Given::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (option, attached) = find(known, word).ok_or_else(|| {
                format!("{tool} {word}: not an option that can be translated; say it in weir load's own (weir load --help)")
            })?;
            let value = match (option.has_value, attached) {
                (false, None) => String::new(),
                (false, Some(_)) => return Err(format!("{tool} --{}: takes no value", option.long)),
                (true, Some(value)) => value.to_owned(),
                (true, None) => words
                    .next()
                    .cloned()
                    .ok_or_else(|| format!("{tool} --{}: its value is missing", option.long))?,
            };
            match option.fate {
                Fate::Taken => drop(given.0.insert(option.long, value)),
                Fate::LeftOut(note) => into.note(format!("--{} is left out: {note}", option.long)),
                Fate::Refused(advice) => return Err(format!("{tool} --{}: {advice}", option.long)),
            }
        }
        Ok(given)
    }

    fn get(&self, long: &str) -> Option<&str> {
        self.0.get(long).map(String::as_str)
    }

    fn has(&self, long: &str) -> bool {
        self.0.contains_key(long)
    }

    /// A whole number, or `default` where the option is not given.
    fn number(&self, long: &str, default: u64) -> Result<u64, String> {
        self.get(long).map_or(Ok(default), |text| {
            text.parse().map_err(|_| format!("--{long} {text}: not a whole number"))
        })
    }
}

/// The option that a word is, and the value attached to it.
fn find<'a>(known: &[Known], word: &'a str) -> Option<(Known, Option<&'a str>)> {
    if let Some(rest) = word.strip_prefix("--") {
        let (name, value) = rest.split_once('=').map_or((rest, None), |(name, value)| (name, Some(value)));
        return known.iter().find(|option| option.long == name).map(|option| (*option, value));
    }
    let mut letters = word.strip_prefix('-')?.chars();
    let letter = letters.next()?;
    let attached = Some(letters.as_str()).filter(|rest| !rest.is_empty());
    let attached = attached.map(|rest| rest.strip_prefix('=').unwrap_or(rest));
    known.iter().find(|option| option.short == Some(letter)).map(|option| (*option, attached))
}

/// A share or weight without needless digits.
fn plain(number: f64) -> String {
    let rounded = (number * 1e6).round() / 1e6;
    // Adding nothing turns a zero below zero into a plain one.
    (rounded + 0.0).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The translation of a command line as a line, or the refusal.
    pub(super) fn line(words: &str) -> Result<String, String> {
        translation(words).map(|translation| translation.line())
    }

    pub(super) fn translation(words: &str) -> Result<Translation, String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        translate(&words).expect("it begins with --like").map(|request| request.translation)
    }

    #[test]
    fn only_a_line_that_begins_with_like_is_translated() {
        assert_eq!(translate(&["--target".to_owned(), "a:1".to_owned()]), None);
        assert_eq!(translate(&[]), None);
        assert!(line("--like ab -s x").is_err_and(|error| error.contains("memtier and memaslap")));
        let words = ["--like=memaslap", "--print", "-s", "a:1"].map(str::to_owned);
        assert!(translate(&words).expect("it begins with --like").expect("it is right").print);
    }

    #[test]
    fn what_is_unknown_is_refused_by_name() {
        for tool in ["memtier", "memaslap"] {
            let error = line(&format!("--like {tool} --frobnicate=1")).expect_err("there is no such option");
            assert!(error.contains("--frobnicate=1: not an option that can be translated"), "{error}");
            assert!(line(&format!("--like {tool} stray")).is_err());
            assert!(
                line(&format!("--like {tool} -t")).expect_err("no value").ends_with("its value is missing")
            );
        }
    }

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        let translation =
            Translation { flags: vec!["--key-prefix".to_owned(), "it's $x".to_owned()], notes: vec![] };
        assert_eq!(translation.line(), r"weir load --key-prefix 'it'\''s $x'");
    }
}
