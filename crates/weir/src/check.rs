//! `weir check`: whether a configuration file is good.
//!
//! A file is good if `weir proxy --config FILE` starts with it: both go the same way, from the file to a checked [`Config`]. What depends
//! on the machine is left to the proxy: names are looked up, but one without an address is a warning, unless `--resolve` asks for more.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use weir_proxy::{ConfigError, Layer, ListenRow, NAMES_WAIT_MAX, unresolved};

use crate::config_file::{self, Config};
use crate::pool::{self, Pool};
use crate::proxy;

/// The flags of `weir check`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example: weir check /etc/weir/weir.toml

Ends with status 0 if weir proxy --config FILE would start with it, and with
status 2 and FILE:LINE: REASON if it would not.

Names of servers are looked up. One without an address is a warning: the proxy
would start, and look it up again. With --resolve it is an error, as is a name
of --listen or --admin without an address.")]
pub(crate) struct CheckArgs {
    /// The file, as `weir proxy --config` takes it
    file: PathBuf,
    /// Which of the file's pools takes the keys that no route takes. Give what `weir proxy --pool` will get
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Fail if a name has no address. Use it on the machine that will serve
    #[arg(long)]
    resolve: bool,
}

/// What is good about a file.
#[derive(Debug)]
struct Checked {
    summary: String,
    /// What is only so on this machine.
    warnings: Vec<String>,
}

impl CheckArgs {
    /// Checks the file, and says what it describes or what is wrong with it.
    #[expect(clippy::print_stderr, reason = "the command line talks to people")]
    pub(crate) fn run(&self) -> ExitCode {
        let Checked { summary, warnings } = match self.check() {
            Ok(checked) => checked,
            Err(error) => return crate::fail(2, &error),
        };
        warnings.iter().for_each(|warning| eprintln!("weir: warning: {warning}"));
        match io::stdout().write_all(summary.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => crate::fail(1, &format!("cannot write the summary: {error}")),
        }
    }

    fn check(&self) -> Result<Checked, Box<dyn Error>> {
        let file = config_file::read(&self.file)?;
        let mut warnings = Vec::new();
        // Names under which the proxy itself is to be reached may be known elsewhere only: the rest is checked with others.
        let mut instead = Layer::default();
        let blamed = |error| proxy::blamed(error, Some(&file.lines), &Layer::default());
        let (config, unserved, unheeded) = loop {
            let mut routed = pool::served(&self.file, &file, self.pool.as_deref())?;
            let unserved = routed.unserved().to_vec();
            let unheeded = routed.table().map(|table| file.unheeded(table)).unwrap_or_default();
            if instead.get("listen").is_some() {
                routed
                    .of_file_mut()
                    .listeners
                    .iter_mut()
                    .for_each(|row| ANYWHERE.clone_into(&mut row.address));
            }
            let error = match proxy::assembled(&instead, file.settings.clone(), routed) {
                Ok(config) => break (config, unserved, unheeded),
                Err(error) => error,
            };
            let name = match error {
                ConfigError::Resolve { setting, .. } => setting,
                _ => return Err(blamed(error)),
            };
            if self.resolve || instead.get(name).is_some() {
                return Err(blamed(error));
            }
            warnings.push(blamed(error).to_string());
            instead = instead.with(name, ANYWHERE)?;
        };
        warnings.extend(unheeded.iter().map(|it| format!("{}: {it}", self.file.display())));
        let wait_max = (!self.resolve).then_some(NAMES_WAIT_MAX);
        for error in unresolved(&config.table, &config.resolver, wait_max) {
            if self.resolve {
                return Err(format!("{}: {error}", self.file.display()).into());
            }
            warnings.push(format!("{}: {error}", self.file.display()));
        }
        let why = pool::why_unserved(self.pool.as_deref());
        Ok(Checked { summary: summary(&file, &unserved, &why), warnings })
    }
}

/// An address that is there on every machine.
const ANYWHERE: &str = "127.0.0.1:0";

/// A line per pool, one more for a pool that no key gets to, one per route, and one per place that names a pool.
fn summary(config: &Config, unserved: &[String], why: &str) -> String {
    let pool = |(name, pool): (&String, &Pool)| {
        let (router, options) = (&pool.router, pool.router.options());
        let hash = options.key_hash().map(|hash| format!(", hash {hash}")).unwrap_or_default();
        let (servers, replicas) = (router.servers().len(), router.replicas());
        let light: String = router
            .without_keys()
            .map(|server| {
                format!("{name}: server {server} is so light among the others that it gets no keys\n")
            })
            .collect();
        let unserved =
            if unserved.contains(name) { format!("{name}: not served: {why}\n") } else { String::new() };
        format!(
            "{name}: {servers} servers, placement {}{hash}, replicas {replicas}\n{light}{unserved}",
            options.placement
        )
    };
    let route = |(prefix, pool): &(String, String)| format!("{prefix:?}: to pool {pool}\n");
    let place = |row: &ListenRow| {
        row.pool.as_ref().map(|pool| format!("{}: to pool {pool}\n", row.address)).unwrap_or_default()
    };
    let routes = config.routes.iter().map(route);
    config.pools.iter().map(pool).chain(routes).chain(config.listeners().iter().map(place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options_table::{line, rows, sample};
    use crate::{Cli, Command};
    use clap::{CommandFactory, FromArgMatches};
    use proptest::prelude::*;
    use std::path::Path;
    use weir_proxy::{Place, Setting};

    /// A file with this text, removed at the end.
    struct Written(PathBuf);

    impl Written {
        fn new(text: &str) -> Self {
            use std::sync::atomic::{AtomicUsize, Ordering};
            static NUMBER: AtomicUsize = AtomicUsize::new(0);
            let name =
                format!("weir-check-{}-{}.toml", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            std::fs::write(&path, text).expect("the folder of temporary files can be written");
            Self(path)
        }
    }

    impl Drop for Written {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn check(file: &Path, resolve: bool) -> Result<Checked, String> {
        let args = CheckArgs { file: file.to_owned(), pool: None, resolve };
        args.check().map_err(|error| error.to_string())
    }

    #[test]
    fn what_a_pool_says_of_clients_that_never_come_in_by_it_is_a_warning() {
        let text = "default = \"main\"\n[routes]\n\"u:\" = \"users\"\n[pools.main]\nservers = [\"127.0.0.1:1\"]\n\
            [pools.users]\nservers = [\"127.0.0.1:2\"]\nlisten = \"127.0.0.1:3\"\nmax_connections = 50\n";
        let file = Written::new(text);
        let warnings = check(&file.0, false).expect("it is good").warnings;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].contains(
                "pool users: listen, max_connections mean nothing here: clients come in by pool main"
            ),
            "{warnings:?}"
        );
        // A file may serve several processes: there it is what the other one goes by.
        let alone = text.replace("[routes]\n\"u:\" = \"users\"\n", "");
        assert_eq!(check(&Written::new(&alone).0, false).expect("it is good").warnings, Vec::<String>::new());
    }

    /// What `weir proxy --config FILE` says before it opens anything.
    fn proxy(file: &Path) -> Result<(), String> {
        proxy_with(file, &[])
    }

    /// The same with more flags.
    fn proxy_with(file: &Path, flags: &[&str]) -> Result<(), String> {
        let words = ["weir".as_ref(), "proxy".as_ref(), "--config".as_ref(), file.as_os_str()];
        let words = words.into_iter().chain(flags.iter().map(AsRef::as_ref));
        let matches = Cli::command().try_get_matches_from(words).expect("a command line");
        let Command::Proxy(args) = Cli::from_arg_matches(&matches).expect("it was parsed").command else {
            panic!("this is weir proxy")
        };
        let of_command = matches.subcommand().expect("this is weir proxy").1;
        args.config(of_command).map(|_| ()).map_err(|error| error.to_string())
    }

    /// Lines that give some settings a value: the default, a bound, something else, or too little. Some are good, some are not, some only
    /// with others.
    fn lines(places: &'static [Place]) -> impl Strategy<Value = String> {
        let said = |row: &'static Setting| {
            let too_little = if row.least.is_empty() { "" } else { "0" };
            let values = [row.default, row.least, row.most, sample(row), too_little];
            let values: Vec<_> = values.into_iter().filter(|value| !value.is_empty()).collect();
            proptest::sample::select(values).prop_map(|value| line(row, value))
        };
        let rows: Vec<_> = rows().filter(|row| places.contains(&row.place)).collect();
        let some = proptest::sample::subsequence(rows, 0..=3);
        let lines = some.prop_flat_map(move |rows| rows.into_iter().map(said).collect::<Vec<_>>());
        lines.prop_map(|lines| lines.join("\n"))
    }

    fn files() -> impl Strategy<Value = String> {
        use Place::{AllPools, DefaultPool, Pool, Proxy, Server};
        let pool = |name: &'static str, servers: &'static str| {
            lines(&[DefaultPool, AllPools, Pool, Server])
                .prop_map(move |lines| format!("[pools.{name}]\nservers = [{servers}]\n{lines}\n"))
        };
        let first = pool("main", "\"127.0.0.1:1\", \"127.0.0.1:2\"");
        let second = proptest::option::of(pool("users", "\"127.0.0.1:3\", \"127.0.0.1:2\""));
        let default = proptest::sample::select(vec!["", "default = \"main\"\n", "default = \"no\"\n"]);
        let routes = proptest::sample::select(vec!["", "[routes]\n\"u:\" = \"users\"\n"]);
        (default, lines(&[Proxy, DefaultPool, AllPools, Server]), first, second, routes).prop_map(
            |(default, settings, first, second, routes)| {
                format!("{default}[proxy]\n{settings}\n{first}{}{routes}", second.unwrap_or_default())
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        /// `check` finds a file good if and only if the proxy does, and both give the same reason.
        #[test]
        fn check_and_proxy_agree_on_every_file(text in files()) {
            let file = Written::new(&text);
            prop_assert_eq!(check(&file.0, false).map(|_| ()), proxy(&file.0), "{}", text);
        }
    }

    /// Which of several it is, an error does not say: a wrong line is worse than none.
    #[test]
    fn a_line_is_named_where_one_alone_can_be_to_blame() {
        let refused = |text: &str, resolve| {
            let file = Written::new(text);
            let reason = check(&file.0, resolve).expect_err("it is refused");
            reason.replace(&file.0.display().to_string(), "FILE")
        };
        let pool = |name: &str, port: u16, more: &str| {
            format!("[pools.{name}]\nservers = [\"127.0.0.1:{port}\"]\nserver_tls = true\n{more}")
        };
        let alone = pool("a", 1, "server_ca = \"/missing\"\n");
        assert!(refused(&alone, false).starts_with("FILE:4: --server-ca /missing: it cannot be read"));
        let both = format!(
            "default = \"a\"\n[routes]\n\"b:\" = \"b\"\n{alone}{}",
            pool("b", 2, "server_ca = \"/b\"\n")
        );
        assert!(refused(&both, false).starts_with("FILE: --server-ca /"), "{}", refused(&both, false));
        let of_server = "[pools.a]\nservers = [\n  \"127.0.0.1:1\",\n  { server = \"127.0.0.1:2\", server_tls = true, server_ca = \"/missing\" },\n]\n";
        assert!(
            refused(of_server, false).starts_with("FILE:4: --server-ca /missing"),
            "{}",
            refused(of_server, false)
        );
        let nowhere = format!(
            "[pools.a]\nservers = [\"127.0.0.1:1\"]\n[[listen]]\naddress = \"{}:1\"\n",
            "x".repeat(64)
        );
        assert!(refused(&nowhere, true).starts_with("FILE:4: --listen `x"), "{}", refused(&nowhere, true));
        let users = "[pools.a]\nservers = [\"127.0.0.1:1\"]\n[[users]]\nname = \"b\"\n";
        assert!(
            refused(users, false).starts_with("FILE:4: user b of [[users]]"),
            "{}",
            refused(users, false)
        );
    }

    /// Lines were counted from the beginning for each of them.
    #[test]
    fn very_many_users_are_read_in_one_pass() {
        let users: String = (0..100_000).map(|number| format!("[[users]]\nname = \"u{number}\"\n")).collect();
        let file = Written::new(&format!("[pools.a]\nservers = [\"127.0.0.1:1\"]\n{users}"));
        let reason = check(&file.0, false).expect_err("nobody has a password");
        assert!(reason.contains("[[users]]"), "{reason}");
    }

    #[test]
    fn a_file_is_not_blamed_for_a_flag() {
        let file = Written::new("[proxy]\nworkers = 3\n[pools.a]\nservers = [\"a:1\"]\n");
        let reason = proxy_with(&file.0, &["--workers", "4"]).expect_err("it is refused");
        assert!(reason.starts_with("--workers belongs to --engine pool"), "{reason}");
        let reason = proxy_with(&file.0, &["--threads", "4"]).expect_err("it is refused");
        assert!(reason.ends_with(&proxy(&file.0).expect_err("it is refused")), "{reason}");
    }

    #[test]
    fn what_the_proxy_refuses_is_refused() {
        for (text, expected) in [
            (
                "[pools.a]\nservers = [\"a:1\"]\n[pools.b]\nservers = [\"b:1\"]\n",
                "there are 2 pools: choose one",
            ),
            (
                "[proxy]\nthreads = 0\n[pools.a]\nservers = [\"a:1\"]\n",
                "threads: 0 is out of range: give 1 to 256",
            ),
            (
                "[proxy]\nworkers = 3\n[pools.a]\nservers = [\"a:1\"]\n",
                ":2: --workers belongs to --engine pool",
            ),
            (
                "[pools.a]\nservers = [\"a:1\"]\n[[listen]]\naddress = \"127.0.0.1:1\"\ntls = true\n",
                ":4: [[listen]] 127.0.0.1:1 is to speak TLS: give --tls-cert",
            ),
            (
                "[pools.a]\nservers = [\"127.0.0.1:1\"]\n[proxy]\nlisten = \"127.0.0.1:1\"\n",
                ":4: server 127.0.0.1:1 is where --listen 127.0.0.1:1 is",
            ),
            (
                "[proxy]\nauth_file = \"/nowhere\"\n[pools.a]\nservers = [\"a:1\"]\n",
                ":2: --auth-file /nowhere: it cannot",
            ),
            ("# my pools\n\n[pools]\n", ": there is no pool"),
        ] {
            let file = Written::new(text);
            let reason = check(&file.0, false).expect_err("it is refused");
            assert!(reason.starts_with(&file.0.display().to_string()), "{reason}");
            assert!(reason.contains(expected), "{reason}");
        }
    }

    #[test]
    fn a_pool_that_no_key_gets_to_is_named() {
        let pools = "[pools.a]\nservers = [\"127.0.0.1:1\"]\n[pools.b]\nservers = [\"127.0.0.1:2\"]\n";
        let not_served = |text: &str, pool: Option<&str>| {
            let file = Written::new(text);
            let args = CheckArgs { file: file.0.clone(), pool: pool.map(str::to_owned), resolve: false };
            let summary = args.check().expect("it is good").summary;
            summary.lines().filter(|line| line.contains("not served")).collect::<Vec<_>>().join("; ")
        };
        let by_default = format!("default = \"a\"\n{pools}");
        assert_eq!(
            not_served(&by_default, None),
            "b: not served: no route, no default and no [[listen]] leads there"
        );
        assert_eq!(not_served(pools, Some("b")), "a: not served: no route leads there, and --pool is b");
        let routed = format!("{by_default}[routes]\n\"u:\" = \"b\"\n");
        assert_eq!(not_served(&routed, None), "");
    }

    /// A label of 64 letters is none: no name server is asked.
    #[test]
    fn names_without_an_address_are_warnings_unless_they_are_to_be_resolved() {
        let name = "x".repeat(64);
        let of_server = format!("[pools.a]\nservers = [\"127.0.0.1:1\", \"{name}:1\"]\n");
        let of_listen =
            format!("[proxy]\nlisten = \"{name}:1\"\nthreads = 1\n[pools.a]\nservers = [\"127.0.0.1:1\"]\n");
        for text in [&of_server, &of_listen] {
            let file = Written::new(text);
            let warnings = check(&file.0, false).expect("it is good elsewhere").warnings;
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert!(warnings[0].contains("cannot be resolved"), "{warnings:?}");
            assert!(check(&file.0, true).is_err_and(|reason| reason.contains("cannot be resolved")));
        }
        let file = Written::new(&of_listen.replace("threads = 1", "threads = 0"));
        let reason = check(&file.0, false).expect_err("the rest is checked");
        assert!(reason.contains("threads: 0 is out of range"), "{reason}");
        let file = Written::new("[pools.a]\nservers = [\"127.0.0.1:1\"]\n");
        assert!(check(&file.0, true).expect("an address is no name").warnings.is_empty());
    }
}
