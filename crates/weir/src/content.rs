//! The flags of `weir load` that say what is sent.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use weir_load::{Amount, Content, Mix, Popularity, Preset};

/// What is sent. Where a preset is named, a flag that is given goes before what the preset says.
#[derive(Args, Debug)]
#[command(next_help_heading = "What is sent")]
pub(crate) struct ContentArgs {
    /// A published workload by name; `list` shows all. Use one to compare with others, or as a start for your own
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Share of requests that are `set`, 0 to 1; the others are `get` [default: 0.1]
    #[arg(long, value_name = "SHARE", conflicts_with = "mix")]
    writes: Option<f64>,
    /// Commands and their weights, such as get=0.9,set=0.1; known are get, gets, gat, gats, set, add, replace, append, prepend,
    /// cas, delete, incr, decr, touch, mg, ms
    #[arg(long, value_name = "MIX")]
    mix: Option<Mix>,
    /// Sizes of the values in bytes. Set them to your own: N, LEAST-MOST, N=WEIGHT,…, pareto:LOCATION,SCALE,SHAPE, gev:…, etc-value [default: 128]
    #[arg(long, value_name = "SIZES")]
    value_size: Option<Amount>,
    /// Sizes of the keys in bytes, in the same forms, or etc-key; 0 is as long as needed. Set them to your own [default: 16]
    #[arg(long, value_name = "SIZES")]
    key_size: Option<Amount>,
    /// What every key begins with. Use it to keep away from keys of others, or to reach a route
    #[arg(long, value_name = "TEXT")]
    key_prefix: Option<String>,
    /// The number in the first key. Give generators that run side by side keys of their own [default: 0]
    #[arg(long, value_name = "N")]
    key_first: Option<u64>,
    /// Number of keys. With more than the servers can hold, reads miss
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) keys: u64,
    /// How requests are spread over the keys: uniform, sequential, zipf:EXPONENT, gaussian:CENTER,DEVIATION, hot:KEYS,REQUESTS
    /// [default: uniform]
    #[arg(long, value_name = "HOW")]
    popularity: Option<Popularity>,
    /// Keys of each get or gets: a number or a distribution. Raise it for clients that fetch many keys at once [default: 1]
    #[arg(long, value_name = "N")]
    multiget: Option<Amount>,
    /// Expiry times of what is written in seconds, 0 is never: a number or a distribution [default: 0]
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<Amount>,
    /// Set a key that a read does not find, as an application with a database behind the cache does
    #[arg(long)]
    read_through: bool,
    /// Close a connection after this number of requests, or one drawn from a distribution, and open it anew. Use it for clients
    /// without lasting connections
    #[arg(long, value_name = "N")]
    reconnect_after: Option<Amount>,
    /// Let each key be written by one connection only, so that outdated reads are found
    #[arg(long)]
    one_writer: bool,
    /// End the run after this number of requests over all connections; then there is no warm-up unless --warmup asks for one
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// Send the requests of a trace: Twitter's cache-trace CSV or the log of memcached's watch; `-` is standard input. It has its own
    /// commands, keys and sizes
    #[arg(long, value_name = "FILE", conflicts_with_all = REPLAYED)]
    pub(crate) replay: Option<PathBuf>,
}

/// What a trace says in place of flags.
const REPLAYED: [&str; 12] = [
    "preset",
    "writes",
    "mix",
    "value_size",
    "key_size",
    "key_prefix",
    "key_first",
    "keys",
    "popularity",
    "multiget",
    "ttl",
    "one_writer",
];

impl ContentArgs {
    /// The list of presets, where it was asked for.
    pub(crate) fn list(&self) -> Option<String> {
        (self.preset.as_deref() == Some("list")).then(list)
    }

    /// What is sent.
    pub(crate) fn content(&self) -> Result<Content, String> {
        let mut content = match &self.preset {
            None => Content::default(),
            Some(name) => Preset::named(name).and_then(Preset::content).map_err(|error| error.to_string())?,
        };
        if let Some(writes) = self.writes {
            if !(0.0..=1.0).contains(&writes) {
                return Err(format!("--writes {writes}: must be a share between 0 and 1"));
            }
            content.mix = Mix::of_writes(writes);
        }
        replace(&mut content.mix, &self.mix);
        replace(&mut content.value_size, &self.value_size);
        replace(&mut content.key_size, &self.key_size);
        replace(&mut content.key_prefix, &self.key_prefix);
        replace(&mut content.key_first, &self.key_first);
        replace(&mut content.popularity, &self.popularity);
        replace(&mut content.multiget, &self.multiget);
        replace(&mut content.ttl, &self.ttl);
        content.read_through |= self.read_through;
        content.reconnect_after.clone_from(&self.reconnect_after);
        content.one_writer = self.one_writer;
        content.requests = self.requests;
        Ok(content)
    }
}

fn replace<T: Clone>(field: &mut T, given: &Option<T>) {
    if let Some(given) = given {
        field.clone_from(given);
    }
}

/// Every preset with its settings, or with the reason why it cannot be used.
fn list() -> String {
    let mut list = String::new();
    for preset in Preset::all() {
        let line = match preset.content() {
            Ok(content) => format!("{:<18}{}", preset.name(), flags(&content)),
            Err(error) => format!("{:<18}not available: {error}", preset.name()),
        };
        writeln!(list, "{line}").expect("a string takes all text");
    }
    list
}

/// The flags that say the same as a preset.
fn flags(content: &Content) -> String {
    let mut flags = format!("--mix {}", content.mix);
    if !content.key_prefix.is_empty() {
        flags += &format!(" --key-prefix {} --key-first {}", content.key_prefix, content.key_first);
    }
    let Content { key_size, value_size, popularity, ttl, .. } = content;
    flags + &format!(" --key-size {key_size} --value-size {value_size} --popularity {popularity} --ttl {ttl}")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        content: ContentArgs,
    }

    fn content(flags: &str) -> Result<Content, String> {
        let words = ["weir"].into_iter().chain(flags.split_whitespace());
        Cli::try_parse_from(words).map_err(|error| error.to_string())?.content.content()
    }

    #[test]
    fn without_flags_the_defaults_are_those_of_the_crate() {
        assert_eq!(content(""), Ok(Content::default()));
    }

    #[test]
    fn flags_go_before_their_preset() {
        let small = content("--preset smallvalue").expect("the preset exists");
        assert_eq!(
            (small.mix.to_string(), small.value_size.to_string()),
            ("get=0.99,set=0.01".to_owned(), "128".to_owned())
        );
        let changed = content("--preset twitter-cluster4 --writes 0.5 --value-size 10-20")
            .expect("the flags are right");
        assert_eq!(changed.mix, Mix::of_writes(0.5));
        assert_eq!(changed.value_size, Amount::Uniform { least: 10, most: 20 });
        assert_eq!(changed.key_size, Amount::Fixed(67));
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        for (flags, reason) in [
            ("--writes 1.5", "--writes 1.5: must be a share"),
            ("--writes NaN", "--writes NaN: must be a share"),
            ("--writes 0.1 --mix get=1", "cannot be used with"),
            ("--mix fetch=1", "no command that can be sent"),
            ("--popularity zipf", "is none of: uniform"),
            ("--preset twitter-cluster5", "does not give its"),
            ("--preset none", "no such preset"),
        ] {
            let error = content(flags).expect_err(flags);
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn what_a_trace_says_is_refused_beside_it() {
        for flags in
            ["--keys 5", "--mix get=1", "--value-size 9", "--ttl 5", "--preset smallvalue", "--one-writer"]
        {
            let error = content(&format!("--replay trace.csv {flags}")).expect_err(flags);
            assert!(error.contains("cannot be used with"), "{error}");
        }
        let obeyed = content("--replay trace.csv --requests 9 --read-through --reconnect-after 5");
        assert_eq!(obeyed.map(|content| content.requests), Ok(Some(9)));
    }

    #[test]
    fn the_list_names_every_preset() {
        let list = list();
        assert_eq!(list.lines().count(), 57);
        assert!(list.contains("twitter-cluster43 not available: "), "{list}");
        assert!(list.contains("facebook-etc      --mix get="), "{list}");
    }
}
