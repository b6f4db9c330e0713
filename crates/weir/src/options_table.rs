//! The table of options in docs/configuration.md, made from the description that parses the command line, and checks that what is said
//! there is so. `WEIR_WRITE_DOCS=1 cargo test -p weir options_table` writes it anew.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, CommandFactory, FromArgMatches};

use crate::config_file;
use crate::pool::variable;
use crate::proxy::ProxyArgs;
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

fn flag(option: &Arg) -> String {
    format!("--{}", option.get_long().expect("every option has a long flag"))
}

fn help(option: &Arg) -> String {
    option.get_help().expect("every option has a help text").to_string().replace('|', "\\|")
}

/// What `[proxy]` of the file knows, as it says itself.
fn settings_of_the_file() -> Vec<String> {
    names_in_refusal("[proxy]\nnonsense = 1\n[pools.main]\nservers = [\"a:1\"]\n")
}

fn settings_of_a_pool() -> Vec<String> {
    names_in_refusal("[pools.main]\nservers = [\"a:1\"]\nnonsense = 1\n")
}

fn names_in_refusal(text: &str) -> Vec<String> {
    let refusal = config_file::refusal_of(text).expect("nonsense is refused");
    let (_, names) = refusal.split_once("expected one of ").expect("it says what it expected");
    names.split(", ").map(|name| name.trim_matches('`').to_owned()).collect()
}

fn in_the_file(option: &Arg) -> String {
    let name = option.get_long().expect("every option has a long flag").replace('-', "_");
    if name == "server" {
        return "`servers` of a pool".to_owned();
    }
    match (settings_of_the_file().contains(&name), settings_of_a_pool().contains(&name)) {
        (true, true) => format!("`{name}`, or of the pool"),
        (true, false) => format!("`{name}`"),
        (false, true) => format!("`{name}` of a pool"),
        (false, false) if name == "pool" => "`default`".to_owned(),
        (false, false) => String::new(),
    }
}

fn table() -> String {
    let mut text = String::from("| flag | variable | in the file | |\n|---|---|---|---|\n");
    for option in options() {
        let value = option
            .get_value_names()
            .and_then(<[_]>::first)
            .map(|name| format!(" {name}"))
            .unwrap_or_default();
        let environment = option.get_env().and_then(|name| name.to_str()).unwrap_or_default();
        let (flag, file, help) = (flag(&option), in_the_file(&option), help(&option));
        writeln!(text, "| `{flag}{value}` | `{environment}` | {file} | {help} |")
            .expect("a string takes all text");
    }
    text
}

#[test]
fn the_table_of_the_documentation_is_this_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
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

#[test]
fn every_option_has_its_variable() {
    for option in options() {
        let named = option.get_env().and_then(|name| name.to_str()).map(str::to_owned);
        assert_eq!(named, Some(variable(&flag(&option))));
    }
}

/// Settings of the file are flags with underscores, and all flags but those about servers are settings of the file.
#[test]
fn the_file_has_what_the_flags_have() {
    let flags: Vec<String> = options().iter().map(|option| flag(option)[2..].replace('-', "_")).collect();
    for name in settings_of_the_file() {
        assert!(flags.contains(&name), "{name}");
    }
    let elsewhere = ["config", "pool", "server"];
    for name in flags.iter().filter(|name| !elsewhere.contains(&name.as_str())) {
        let known = [settings_of_the_file(), settings_of_a_pool()].concat();
        assert!(known.contains(name), "{name} cannot be written in the file");
    }
}

/// To give what the help calls the default changes nothing.
#[test]
fn the_defaults_in_the_help_are_the_defaults() {
    let config = |more: &[&str]| {
        let words = [&["weir", "proxy", "--server", "127.0.0.1:1"], more].concat();
        let matches = Cli::command().try_get_matches_from(words).expect("a command line");
        let Command::Proxy(args) = Cli::from_arg_matches(&matches).expect("it was parsed").command else {
            panic!("this is weir proxy")
        };
        told(&args, matches.subcommand().expect("this is weir proxy").1)
    };
    let mut checked = 0;
    for option in options() {
        let help = help(&option);
        let Some((_, default)) = help.split_once("[default: ") else { continue };
        let (default, _) = default.split_once(']').expect("it is closed");
        let of_engine: &[&str] = if help.contains("(engine pool") {
            &["--engine", "pool"]
        } else if help.contains("(engine split") {
            &["--engine", "split"]
        } else {
            &[]
        };
        let given = format!("{}={default}", flag(&option));
        assert_eq!(config(&[of_engine, &[&given]].concat()), config(of_engine), "{help}");
        checked += 1;
    }
    assert!(checked >= 10, "only {checked} options tell a default");
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(weir_proxy::THREADS_MAX);
    assert_eq!(config(&["--threads", &cores.to_string()]), config(&[]), "one event loop for each core");
    assert_ne!(config(&["--threads", &(cores + 1).to_string()]), config(&[]));
}

fn told(args: &ProxyArgs, matches: &clap::ArgMatches) -> String {
    let config = args.config(matches).unwrap_or_else(|error| panic!("{error}"));
    let pool = config.table.pools()[0].router().options().clone();
    format!(
        "{:?} {:?} {:?} {:?} {} {} {:?} {} {} {:?} {:?} {:?} {} {:?} {} {} {:?} {:?} {} {:?} {:?} {:?} {} {} {:?} {pool:?}",
        config.listen,
        config.admin,
        config.admin_hosts,
        config.engine,
        config.threads,
        config.batching,
        config.timeout,
        config.multiget,
        config.on_failure,
        config.replication,
        config.drain_timeout,
        config.drain_delay,
        config.sessions_max,
        config.value_bytes_max,
        config.client_buffer_bytes_max,
        config.server_buffer_bytes_max,
        (config.flush_allowed, config.server_commands_allowed),
        config.resolve_every,
        config.progress_bytes_min,
        config.connect_timeout,
        config.patience,
        config.tcp,
        config.buffer_bytes_max,
        config.large_value_bytes,
        config.sampling,
    )
}
