//! memtier_benchmark's options.

use super::{Given, Known, Translation, left_out, plain, refused, taken};

pub(super) fn translate(words: &[String]) -> Result<Translation, String> {
    let mut line = Translation::default();
    let given = Given::read("memtier", words, KNOWN, &mut line)?;
    check_protocol(&given)?;
    connections(&given, &mut line)?;
    content(&given, &mut line)?;
    keys(&given, &mut line)?;
    if let Some(file) = given.get("json-out-file") {
        line.flag("--json", file);
        line.note("--json-out-file is written as weir.load/1 (docs/reference/formats.md), not in memtier's own format");
    }
    if let Some(prefix) = given.get("hdr-file-prefix") {
        line.flag("--hdr", format!("{prefix}.hlog"));
        line.note("--hdr-file-prefix becomes one HdrHistogram log of all seconds");
    }
    line.note("memtier takes a ratio in turns, weir load as shares of random requests");
    Ok(line)
}

fn check_protocol(given: &Given) -> Result<(), String> {
    match given.get("protocol") {
        Some("memcache_text") => Ok(()),
        None => Err("memtier: its default protocol is Redis's; say --protocol=memcache_text".to_owned()),
        Some(other) => Err(format!(
            "memtier --protocol {other}: weir load speaks memcached's text protocol: memcache_text"
        )),
    }
}

fn connections(given: &Given, line: &mut Translation) -> Result<(), String> {
    line.flag("--target", target(given)?);
    let (threads, clients) = (given.number("threads", 4)?, given.number("clients", 50)?);
    let connections = threads.checked_mul(clients).ok_or("memtier: too many --threads and --clients")?;
    line.flag("--connections", connections);
    line.flag("--threads", threads);
    line.flag("--depth", given.number("pipeline", 1)?);
    match (given.get("test-time"), given.get("requests")) {
        (Some(_), Some(_)) => return Err("memtier: give either --test-time or --requests".to_owned()),
        (Some(seconds), None) => {
            line.flag("--duration", format!("{}s", seconds.trim_end_matches('s')));
            line.flag("--warmup", "0s");
        }
        (None, _) => {
            if given.get("requests") == Some("allkeys") {
                return Err("memtier --requests allkeys: weir load sets every key once before the load; \
                            leave --no-prefill out, and say --requests for the rest"
                    .to_owned());
            }
            let requests = given.number("requests", 10_000)?;
            line.flag("--requests", requests.checked_mul(connections).ok_or("memtier: too many --requests")?);
        }
    }
    if given.number("run-count", 1)? != 1 {
        return Err("memtier --run-count: weir load makes one run; weir-lab repeats runs and compares them"
            .to_owned());
    }
    if given.has("rate-limiting") {
        let rate = given.number("rate-limiting", 0)?;
        line.flag("--rate", rate.checked_mul(connections).ok_or("memtier: too high a --rate-limiting")?);
        line.note("--rate is an open loop: requests are due at their times, and counted from them, however late answers are");
    }
    if let Some(requests) = given.get("reconnect-interval").filter(|interval| *interval != "0") {
        line.flag("--reconnect-after", requests);
    }
    Ok(())
}

/// A socket in the file system goes before host and port, as in memtier.
fn target(given: &Given) -> Result<String, String> {
    if let Some(path) = given.get("unix-socket") {
        return Ok(format!("unix:{path}"));
    }
    let host = given.get("server").or(given.get("host")).unwrap_or("localhost");
    let host =
        if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
    Ok(format!("{host}:{}", given.number("port", 6379)?))
}

fn content(given: &Given, line: &mut Translation) -> Result<(), String> {
    let ratio = given.get("ratio").unwrap_or("1:10");
    let parts = ratio.split_once(':').and_then(|(sets, gets)| Some((sets.parse().ok()?, gets.parse().ok()?)));
    let (sets, gets): (u64, u64) = parts
        .filter(|&parts| parts != (0, 0))
        .ok_or_else(|| format!("memtier --ratio {ratio}: expected SETS:GETS"))?;
    // The ratio counts keys. A cycle has `sets` sets, and as many multi-gets as its `gets` keys fill, the last with the rest.
    let many = given.number("multi-key-get", 1)?.max(1);
    let (full, rest) = (gets / many, gets % many);
    let requests = full + u64::from(rest > 0);
    line.flag("--mix", format!("set={sets},get={requests}"));
    match (full, rest) {
        _ if requests == 0 || many == 1 => {}
        (_, 0) => line.flag("--multiget", many),
        (0, rest) => line.flag("--multiget", rest),
        (full, rest) => line.flag("--multiget", format!("{many}={full},{rest}=1")),
    }
    line.flag("--value-size", value_size(given)?);
    if let Some(range) = given.get("expiry-range") {
        line.flag("--ttl", range);
    }
    Ok(())
}

fn value_size(given: &Given) -> Result<String, String> {
    let sizes = ["data-size", "data-size-range", "data-size-list"].map(|name| given.get(name));
    match sizes {
        [size, None, None] => Ok(size.unwrap_or("32").to_owned()),
        [None, Some(range), None] => {
            if given.get("data-size-pattern").is_some_and(|pattern| pattern != "R") {
                return Err(
                    "memtier --data-size-pattern S: sizes in weir load belong to their keys, at random"
                        .to_owned(),
                );
            }
            Ok(range.to_owned())
        }
        [None, None, Some(list)] => {
            let mut parts = Vec::new();
            for part in list.split(',') {
                let (size, weight) = part
                    .split_once(':')
                    .ok_or_else(|| format!("memtier --data-size-list {list}: expected SIZE:WEIGHT,…"))?;
                parts.push(format!("{size}={weight}"));
            }
            Ok(parts.join(","))
        }
        _ => Err("memtier: give one of --data-size, --data-size-range and --data-size-list".to_owned()),
    }
}

fn keys(given: &Given, line: &mut Translation) -> Result<(), String> {
    let (first, last) = (given.number("key-minimum", 0)?, given.number("key-maximum", 10_000_000)?);
    let keys = last.checked_sub(first).and_then(|keys| keys.checked_add(1));
    let keys = keys.ok_or_else(|| format!("memtier: --key-minimum {first} is above --key-maximum {last}"))?;
    line.flag("--key-prefix", given.get("key-prefix").unwrap_or("memtier-"));
    line.flag("--key-first", first);
    line.flag("--key-size", 0);
    line.flag("--keys", keys);
    // memtier sets no key that it was not asked to set.
    line.switch("--no-prefill");
    let pattern = given.get("key-pattern").unwrap_or("R:R");
    let (sets, gets) = pattern
        .split_once(':')
        .ok_or_else(|| format!("memtier --key-pattern {pattern}: expected SETS:GETS, such as R:R"))?;
    let used = match given.get("ratio").and_then(|ratio| ratio.split_once(':')) {
        Some(("0", _)) => gets,
        Some((_, "0")) => sets,
        _ if sets == gets => sets,
        _ => {
            return Err(format!(
                "memtier --key-pattern {pattern}: weir load spreads all requests over the keys in one way; \
                 say the same for both, or make a run for each"
            ));
        }
    };
    line.flag("--popularity", popularity(used, given, first, keys)?);
    Ok(())
}

fn popularity(pattern: &str, given: &Given, first: u64, keys: u64) -> Result<String, String> {
    let share = |name: &str, default: f64, from: f64| -> Result<String, String> {
        let number =
            given.get(name).filter(|text| *text != "0").map_or(Ok(default * keys as f64 + from), |text| {
                text.parse::<f64>().map_err(|_| format!("memtier --{name} {text}: not a number"))
            })?;
        Ok(plain((number - from) / keys as f64))
    };
    match pattern {
        "R" => Ok("uniform".to_owned()),
        // Sequential, and sequential with a part of the keys for each client: a connection begins at its own place.
        "S" | "P" => Ok("sequential".to_owned()),
        "G" => Ok(format!(
            "gaussian:{},{}",
            share("key-median", 0.5, first as f64)?,
            share("key-stddev", 1.0 / 6.0, 0.0)?
        )),
        "Z" => Ok(format!("zipf:{}", given.get("key-zipf-exp").unwrap_or("1"))),
        other => Err(format!("memtier --key-pattern {other}: known are R, S, P, G and Z")),
    }
}

const EVERY_REPLY: &str = "weir load verifies every reply";
const OWN_HISTOGRAMS: &str = "histograms are in the record that --json writes";
const NO_REDIS: &str = "this is for Redis; weir load speaks to memcached alone";
const NO_TLS: &str = "not taken over; weir load has --tls, --ca, --cert and --key of its own, without --like";

const KNOWN: &[Known] = &[
    taken("server", Some('s')),
    taken("host", Some('h')),
    taken("port", Some('p')),
    taken("unix-socket", Some('S')),
    taken("protocol", Some('P')),
    taken("clients", Some('c')),
    taken("threads", Some('t')),
    taken("test-time", None),
    taken("requests", Some('n')),
    taken("run-count", Some('x')),
    taken("ratio", None),
    taken("pipeline", None),
    taken("rate-limiting", None),
    taken("reconnect-interval", None),
    taken("multi-key-get", None),
    taken("data-size", Some('d')),
    taken("data-size-range", None),
    taken("data-size-list", None),
    taken("data-size-pattern", None),
    taken("expiry-range", None),
    taken("key-prefix", None),
    taken("key-minimum", None),
    taken("key-maximum", None),
    taken("key-pattern", None),
    taken("key-stddev", None),
    taken("key-median", None),
    taken("key-zipf-exp", None),
    taken("json-out-file", None),
    left_out("hide-histogram", None, false, OWN_HISTOGRAMS),
    left_out("print-percentiles", None, true, OWN_HISTOGRAMS),
    left_out("show-config", None, false, "the record holds the settings"),
    left_out("debug", Some('D'), false, "there is nothing to debug"),
    left_out("out-file", Some('o'), true, "redirect the table where it should go"),
    left_out("client-stats", None, true, "the record that --json writes has windows of one second"),
    left_out("random-data", Some('R'), false, "values hold a checksum and a pseudo-random body"),
    left_out("distinct-client-seed", None, false, "each connection has random numbers of its own"),
    left_out("randomize", None, false, "say --seed for other random numbers"),
    left_out("data-verify", None, false, EVERY_REPLY),
    left_out("ipv4", Some('4'), false, "give an address instead of a name where it matters"),
    left_out("ipv6", Some('6'), false, "give an address instead of a name where it matters"),
    left_out("print-all-runs", None, false, "there is one run"),
    refused(
        "verify-only",
        None,
        false,
        "read with --ratio=0:1 on the same keys instead: every reply is verified",
    ),
    taken("hdr-file-prefix", None),
    refused("authenticate", Some('a'), true, "weir load does not authenticate"),
    refused("generate-keys", None, false, "leave it out; keys are a prefix and a number"),
    refused("data-import", None, true, "use weir load --replay with a trace"),
    refused("data-offset", None, true, NO_REDIS),
    refused("select-db", None, true, NO_REDIS),
    refused("cluster-mode", None, false, NO_REDIS),
    refused("command", None, true, NO_REDIS),
    refused("wait-ratio", None, true, NO_REDIS),
    refused("num-slaves", None, true, NO_REDIS),
    refused("wait-timeout", None, true, NO_REDIS),
    refused("tls", None, false, NO_TLS),
    refused("cert", None, true, NO_TLS),
    refused("key", None, true, NO_TLS),
    refused("cacert", None, true, NO_TLS),
];

#[cfg(test)]
mod tests {
    use super::super::tests::{line, translation};

    #[test]
    fn the_studies_command_lines() {
        let read = "--like memtier --server=10.0.0.7 --port=11211 --protocol=memcache_text --clients=32 --threads=2 --test-time=70 \
                    --ratio=0:1 --expiry-range=9999-10000 --key-maximum=10000 --data-size=4096 --hide-histogram \
                    --json-out-file=out.json";
        let expected = "weir load --target 10.0.0.7:11211 --connections 64 --threads 2 --depth 1 --duration 70s --warmup 0s \
                        --mix set=0,get=1 --value-size 4096 --ttl 9999-10000 --key-prefix memtier- --key-first 0 --key-size 0 \
                        --keys 10001 --no-prefill --popularity uniform --json out.json";
        assert_eq!(line(read).as_deref(), Ok(expected));
        let notes = translation(read).expect("it is right").notes;
        assert_eq!(notes.len(), 3, "the histogram, the format and the ratio: {notes:?}");

        let write = "--like memtier -s mw -p 16399 -P memcache_text -c 1 -t 1 --test-time 90 --ratio 1:0 --key-pattern P:R";
        let found = line(write).expect("only sets are sent, so only their pattern counts");
        assert!(found.contains("--target mw:16399") && found.contains("--mix set=1,get=0"), "{found}");
        assert!(found.ends_with("--popularity sequential"), "{found}");
    }

    #[test]
    fn a_ratio_of_multi_gets_counts_keys() {
        for (ratio, keys, mix, multiget) in [
            ("1:6", "6", "--mix set=1,get=1 ", Some("--multiget 6 ")),
            ("1:9", "3", "--mix set=1,get=3 ", Some("--multiget 3 ")),
            ("1:10", "4", "--mix set=1,get=3 ", Some("--multiget 4=2,2=1 ")),
            ("1:2", "9", "--mix set=1,get=1 ", Some("--multiget 2 ")),
            ("1:1", "1", "--mix set=1,get=1 ", None),
            ("1:0", "5", "--mix set=1,get=0 ", None),
        ] {
            let found =
                line(&format!("--like memtier -P memcache_text --ratio={ratio} --multi-key-get={keys}"))
                    .expect("it is right");
            assert!(found.contains(mix), "{ratio} {keys}: {found}");
            assert_eq!(found.contains("--multiget"), multiget.is_some(), "{found}");
            assert!(found.contains(multiget.unwrap_or("")), "{found}");
        }
    }

    #[test]
    fn defaults_are_memtiers() {
        let found = line("--like memtier --protocol=memcache_text").expect("it is right");
        let expected = "weir load --target localhost:6379 --connections 200 --threads 4 --depth 1 --requests 2000000 \
                        --mix set=1,get=10 --value-size 32 --key-prefix memtier- --key-first 0 --key-size 0 --keys 10000001 \
                        --no-prefill --popularity uniform";
        assert_eq!(found, expected);
    }

    #[test]
    fn sizes_rates_and_patterns_are_translated() {
        let base = "--like memtier -P memcache_text --key-maximum=999";
        let check = |options: &str, part: &str| {
            let found = line(&format!("{base} {options}")).expect(options);
            assert!(found.contains(part), "{options}: {found}");
        };
        check("--data-size-range=10-20", "--value-size 10-20");
        check("--data-size-list=10:3,500:1", "--value-size 10=3,500=1");
        check("--rate-limiting=100 -c 3 -t 2", "--rate 600");
        check("--pipeline=8", "--depth 8");
        check("--reconnect-interval=50", "--reconnect-after 50");
        check("--key-pattern=G:G --key-median=250 --key-stddev=100", "--popularity gaussian:0.25,0.1");
        check("--key-pattern=G:G", "--popularity gaussian:0.5,0.166667");
        check("--key-pattern=Z:Z --key-zipf-exp=1.2", "--popularity zipf:1.2");
        check("--hdr-file-prefix=run", "--hdr run.hlog");
        check("--server ::1", "--target [::1]:6379");
        check("-S /run/weir.sock", "--target unix:/run/weir.sock");
        check("--unix-socket=/run/weir.sock --port 1", "--target unix:/run/weir.sock");
    }

    #[test]
    fn what_has_no_equal_is_refused_with_advice() {
        for (options, advice) in [
            ("", "say --protocol=memcache_text"),
            ("--protocol=redis", "memcached's text protocol"),
            ("-P memcache_text --run-count=3", "weir-lab repeats runs"),
            ("-P memcache_text --tls", "--tls, --ca, --cert and --key of its own"),
            ("-P memcache_text --key-pattern=R:S", "a run for each"),
            ("-P memcache_text --ratio=0:0", "expected SETS:GETS"),
            ("-P memcache_text --requests=allkeys", "sets every key once"),
            ("-P memcache_text --test-time=1 --requests=1", "either --test-time or --requests"),
            ("-P memcache_text --key-minimum=5 --key-maximum=4", "is above"),
            ("-P memcache_text --tls=yes", "takes no value"),
        ] {
            let error = line(&format!("--like memtier {options}")).expect_err(options);
            assert!(error.contains(advice), "{options}: {error}");
        }
    }
}
