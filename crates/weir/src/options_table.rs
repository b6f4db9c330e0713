//! The table of options in docs/reference/configuration.md, made from the rows of the settings and the description that parses the command line.
//! `WEIR_WRITE_DOCS=1 cargo test -p weir options_table` writes it anew.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, CommandFactory, FromArgMatches};
use weir_proxy::{Form, Place, PoolSettings, Setting, Settings, Table as _};

use crate::config_file;
use crate::{Cli, Command};

const BEGIN: &str = "<!-- begin: made by crates/weir/src/options_table.rs -->\n";
const END: &str = "<!-- end -->\n";

/// The options of `weir proxy`, in the order of its help.
fn options() -> Vec<Arg> {
    let mut cli = Cli::command();
    cli.build();
    let proxy = cli.find_subcommand("proxy").expect("there is a proxy");
    let options = proxy.get_arguments().filter(|arg| !["help", "version"].contains(&arg.get_id().as_str()));
    // What is hidden is for tests and benchmarks.
    options.filter(|arg| !arg.is_hide_set()).cloned().collect()
}

pub(crate) fn rows() -> impl Iterator<Item = &'static Setting> {
    Settings::ROWS.iter().chain(PoolSettings::ROWS)
}

/// Where the file has an option, and whether a reload changes it.
fn in_the_file(option: &Arg) -> (String, &'static str) {
    let id = option.get_id().as_str();
    let Some(row) = rows().find(|row| row.name == id) else {
        return match id {
            "servers" => ("`servers` of a pool".to_owned(), "yes"),
            "pool" => ("`default`".to_owned(), "no"),
            _ => (String::new(), "no"),
        };
    };
    let place = match row.place {
        Place::Proxy => format!("`{id}`"),
        Place::DefaultPool | Place::AllPools => format!("`{id}`, or of the pool"),
        Place::Server => format!("`{id}`, or of the pool or server"),
        Place::Pool => format!("`{id}` of a pool"),
        Place::Flag => String::new(),
    };
    (place, if row.reloads { "yes" } else { "no" })
}

fn table() -> String {
    let mut text = String::new();
    let mut above = None;
    for option in options() {
        let heading = option.get_help_heading().expect("every option has a heading");
        if above.replace(heading.to_owned()).as_deref() != Some(heading) {
            writeln!(
                text,
                "\n### {heading}\n\n| flag | in the file | reloads | what it does, and when to change it |"
            )
            .and_then(|()| writeln!(text, "|---|---|---|---|"))
            .expect("a string takes all text");
        }
        let flag = option.get_long().expect("every option has a long flag");
        let value = option.get_value_names().and_then(<[_]>::first).expect("every option has a value");
        let variable = option.get_env().and_then(|name| name.to_str()).expect("every option has a variable");
        assert_eq!(
            variable,
            format!("WEIR_{}", flag.replace('-', "_").to_uppercase()),
            "the page gives this rule"
        );
        let help = option.get_help().expect("every option has a help text").to_string();
        let help = with_links(&help.replace('|', "\\|"));
        let (file, reloads) = in_the_file(&option);
        writeln!(text, "| `--{flag} {value}` | {file} | {reloads} | {help} |")
            .expect("a string takes all text");
    }
    text + "\n"
}

/// Pages that a text names, as links from a page of the same folder as this one.
fn with_links(text: &str) -> String {
    let mut words: Vec<_> = text.split(' ').map(ToOwned::to_owned).collect();
    for word in &mut words {
        let Some(begin) = word.find("docs/") else { continue };
        let end = word.find(".md").expect("what begins with docs/ is a page") + ".md".len();
        let page = &word[begin..end];
        let (folder, name) = page["docs/".len()..].split_once('/').expect("pages are in folders");
        let way = if folder == "reference" { name.to_owned() } else { format!("../{folder}/{name}") };
        *word = format!("{}[{name}]({way}){}", &word[..begin], &word[end..]);
    }
    words.join(" ")
}

#[test]
fn the_table_of_the_documentation_is_this_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let (before, rest) = page.split_once(BEGIN).expect("the page has a mark where the table begins");
    let (written, after) = rest.split_once(END).expect("the page has a mark where the table ends");
    if std::env::var_os("WEIR_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{}{END}{after}", table()))
            .expect("the page can be written");
        return;
    }
    assert_eq!(written, table(), "write it anew: WEIR_WRITE_DOCS=1 cargo test -p weir options_table");
}

/// A value of the setting, another than its default where that is easy.
pub(crate) fn sample(row: &Setting) -> &str {
    match (row.value, row.words) {
        (_, [.., (word, _)]) => word,
        ("ADDRESS", _) => "127.0.0.1:1",
        ("NAMES", _) => "a.internal,b.internal",
        ("NAME", _) if row.name == "placement" => "ring",
        ("NAME", _) => "md5",
        ("FILE", _) => "/tmp/file",
        ("MODE", _) => "600",
        ("BOOL", _) => "true",
        ("TIME", _) => "1ms",
        ("BYTES", _) => "32m",
        ("SHARE", _) => "0.5",
        ("PAIR", _) => "{}",
        ("TEXT", _) => "salt",
        _ => "2",
    }
}

/// The line of the file that says so.
pub(crate) fn line(row: &Setting, value: &str) -> String {
    match row.form {
        Form::Number | Form::Share | Form::Truth => format!("{} = {value}", row.name),
        Form::Text | Form::Time | Form::Size => format!("{} = \"{value}\"", row.name),
    }
}

/// Flags and file go the same way: by name, with the same values.
#[test]
fn every_setting_can_be_said_by_a_flag_and_in_the_file() {
    for row in rows().filter(|row| row.place != Place::Flag) {
        let value = if row.name == "resolve_every" { "1s" } else { sample(row) };
        let flag = format!("--{}={value}", row.flag());
        let words = ["weir", "proxy", "--server", "127.0.0.1:1", &flag];
        let matches = Cli::command().try_get_matches_from(words).unwrap_or_else(|error| panic!("{error}"));
        let Command::Proxy(args) = Cli::from_arg_matches(&matches).expect("it was parsed").command else {
            panic!("this is weir proxy")
        };
        let (name, line) = (row.name, line(row, value));
        let (of_proxy, of_pool) = match row.place {
            // Few placements take salt.
            Place::Pool if name == "salt" => (String::new(), format!("placement = \"mcrouter/Ch3\"\n{line}")),
            Place::Pool => (String::new(), line),
            _ => (line, String::new()),
        };
        let file = format!("[proxy]\n{of_proxy}\n[pools.main]\nservers = [\"a:1\", \"b:1\"]\n{of_pool}\n");
        let by_file = config_file::said_by(&file);
        assert_eq!(args.said().get(name), Some(value), "{flag}");
        assert_eq!(by_file.get(name), Some(value), "{file}");
    }
}

/// Nothing but where the settings are is an option without a row.
#[test]
fn options_are_rows() {
    let options = options();
    let ids = options.iter().map(|option| option.get_id().as_str());
    let others: Vec<_> = ids.filter(|id| rows().all(|row| row.name != *id)).collect();
    assert_eq!(others, ["servers", "config", "pool"]);
}
