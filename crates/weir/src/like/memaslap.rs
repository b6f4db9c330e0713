//! memaslap's options, and its file of distributions.

use std::io;

use super::{Given, Known, Translation, left_out, plain, refused, taken};

/// `read` reads the file that `-F` names.
pub(super) fn translate(
    words: &[String],
    read: &dyn Fn(&str) -> io::Result<String>,
) -> Result<Translation, String> {
    let mut line = Translation::default();
    let given = Given::read("memaslap", words, KNOWN, &mut line)?;
    let servers = given.get("servers").ok_or("memaslap: say where to connect, with --servers HOST:PORT")?;
    for server in servers.split(',') {
        // libmemcached's own default port.
        let port = if server.contains(':') { "" } else { ":11211" };
        line.flag("--target", format!("{server}{port}"));
    }
    if servers.contains(',') {
        line.note(
            "memaslap gives each server keys of its own; the targets of weir load must serve the same keys",
        );
    }
    let concurrency = given.number("concurrency", 128)?;
    line.flag("--connections", concurrency);
    line.flag("--threads", given.number("threads", 8)?.min(concurrency));
    if given.number("conn_sock", 1)? != 1 {
        return Err(
            "memaslap --conn_sock: each client of weir load has one connection; give more --concurrency"
                .to_owned(),
        );
    }
    ending(&given, &mut line)?;
    content(&given, &mut line, read)?;
    keys(&given, concurrency, &mut line)?;
    if let Some(rate) = given.get("tps") {
        line.flag("--rate", suffixed("tps", rate, 1000)?);
        line.note("--rate is an open loop: requests are due at their times, and counted from them, however late answers are");
    }
    Ok(line)
}

fn ending(given: &Given, line: &mut Translation) -> Result<(), String> {
    match (given.get("time"), given.get("execute_number")) {
        (Some(_), Some(_)) => Err("memaslap: give either --time or --execute_number".to_owned()),
        (Some(time), None) => {
            line.flag("--duration", duration(time)?);
            line.flag("--warmup", "0s");
            Ok(())
        }
        (None, _) => {
            line.flag("--requests", given.number("execute_number", 1_000_000)?);
            Ok(())
        }
    }
}

fn content(
    given: &Given,
    line: &mut Translation,
    read: &dyn Fn(&str) -> io::Result<String>,
) -> Result<(), String> {
    let mut file = match given.get("cfg_cmd") {
        None => File::default(),
        Some(path) => {
            let text = read(path).map_err(|error| format!("memaslap --cfg_cmd {path}: {error}"))?;
            File::parse(&text).map_err(|error| format!("memaslap --cfg_cmd {path}: {error}"))?
        }
    };
    if let Some(size) = given.get("fixed_size") {
        file.value = size.to_owned();
    }
    // The file's shares count keys, and a multi-get packs `division` of them: that makes requests for gets fewer.
    let division = given.number("division", 1)?.max(1);
    line.flag("--mix", format!("set={},get={}", plain(file.sets), plain(file.gets / division as f64)));
    if division > 1 {
        line.flag("--multiget", division);
    }
    line.flag("--key-size", file.key);
    line.flag("--value-size", file.value);
    if given.has("overwrite") {
        line.note("--overwrite is left out: every set of weir load overwrites one of its keys");
    }
    Ok(())
}

fn keys(given: &Given, concurrency: u64, line: &mut Translation) -> Result<(), String> {
    let window = suffixed("win_size", given.get("win_size").unwrap_or("10k"), 1024)?;
    let keys = window.checked_mul(concurrency).ok_or("memaslap: too large a --win_size")?;
    line.flag("--keys", keys);
    Ok(())
}

/// What memaslap's file says; without one, its own defaults.
#[derive(Debug)]
struct File {
    key: String,
    value: String,
    sets: f64,
    gets: f64,
}

impl Default for File {
    fn default() -> File {
        File { key: "64".to_owned(), value: "1024".to_owned(), sets: 0.1, gets: 0.9 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Section {
    Key,
    Value,
    Command,
}

impl File {
    /// Sections `key`, `value` and `cmd`, each with lines behind it: `LEAST MOST SHARE` of sizes, `0 SHARE` for sets and `1 SHARE`
    /// for gets.
    fn parse(text: &str) -> Result<File, String> {
        let mut file = File::default();
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        let mut section = None;
        let mut commands = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let fault =
                |expected: &str| format!("line {}: {:?}: expected {expected}", number + 1, line.trim());
            match (&words[..], section) {
                ([], _) => {}
                (["key"], _) => section = Some(Section::Key),
                (["value"], _) => section = Some(Section::Value),
                (["cmd"], _) => section = Some(Section::Command),
                ([least, most, share], Some(part @ (Section::Key | Section::Value))) => {
                    let sizes = if part == Section::Key { &mut keys } else { &mut values };
                    let numbers = (least.parse::<u64>(), most.parse::<u64>(), share.parse::<f64>());
                    let (Ok(least), Ok(most), Ok(share)) = numbers else {
                        return Err(fault("LEAST MOST SHARE"));
                    };
                    sizes.push((least, most, share));
                }
                ([command, share], Some(Section::Command)) => {
                    let share: f64 = share.parse().map_err(|_| fault("a share"))?;
                    match *command {
                        "0" => commands.push((0, share)),
                        "1" => commands.push((1, share)),
                        _ => return Err(fault("0 for sets or 1 for gets, and a share")),
                    }
                }
                (_, None) => return Err(fault("one of the sections key, value and cmd")),
                _ => return Err(fault("LEAST MOST SHARE under key and value, 0 or 1 and a share under cmd")),
            }
        }
        if !keys.is_empty() {
            file.key = amount(&keys);
        }
        if !values.is_empty() {
            file.value = amount(&values);
        }
        if !commands.is_empty() {
            let share =
                |of| commands.iter().filter(|(command, _)| *command == of).map(|(_, share)| share).sum();
            (file.sets, file.gets) = (share(0), share(1));
        }
        Ok(file)
    }
}

/// Ranges of sizes as weir load writes them.
fn amount(parts: &[(u64, u64, f64)]) -> String {
    let range = |least, most| if least == most { format!("{least}") } else { format!("{least}-{most}") };
    if let [(least, most, _)] = *parts {
        return range(least, most);
    }
    parts
        .iter()
        .map(|&(least, most, share)| format!("{}={share}", range(least, most)))
        .collect::<Vec<_>>()
        .join(",")
}

/// `10k`, `2M` as a number; a kilo has `kilo`.
fn suffixed(name: &str, text: &str, kilo: u64) -> Result<u64, String> {
    let bad = || format!("memaslap --{name} {text}: expected a number, such as 10k");
    let (digits, scale) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, kilo),
        None => text.strip_suffix(['m', 'M']).map_or((text, 1), |digits| (digits, kilo * kilo)),
    };
    digits.parse::<u64>().ok().and_then(|number| number.checked_mul(scale)).ok_or_else(bad)
}

/// `30s`, `2m`, `1h`, `1d` in what weir load knows.
fn duration(text: &str) -> Result<String, String> {
    let bad = || format!("memaslap --time {text}: expected a number and s, m, h or d");
    if let Some(days) = text.strip_suffix('d') {
        return Ok(format!(
            "{}h",
            days.parse::<u64>().ok().and_then(|days| days.checked_mul(24)).ok_or_else(bad)?
        ));
    }
    let digits = text.strip_suffix(['s', 'm', 'h']).unwrap_or(text);
    digits.parse::<u64>().map_err(|_| bad())?;
    Ok(if digits.len() == text.len() { format!("{text}s") } else { text.to_owned() })
}

const NO_UDP: &str = "weir load speaks TCP";

const KNOWN: &[Known] = &[
    taken("servers", Some('s')),
    taken("threads", Some('T')),
    taken("concurrency", Some('c')),
    taken("conn_sock", Some('n')),
    taken("execute_number", Some('x')),
    taken("time", Some('t')),
    taken("cfg_cmd", Some('F')),
    taken("win_size", Some('w')),
    taken("fixed_size", Some('X')),
    taken("division", Some('d')),
    taken("overwrite", Some('o')),
    taken("tps", Some('P')),
    left_out("verify", Some('v'), true, "weir load verifies every reply"),
    left_out("stat_freq", Some('S'), true, "the record that --json writes has windows of one second"),
    left_out("reconnect", Some('R'), false, "weir load connects again after every break"),
    left_out("verbose", Some('b'), false, "failures are always reported in full"),
    refused(
        "exp_verify",
        Some('e'),
        true,
        "let values expire with weir load --ttl; whether they do is not verified",
    ),
    refused("udp", Some('U'), false, NO_UDP),
    refused("facebook", Some('a'), false, NO_UDP),
    refused("binary", Some('B'), false, "weir load speaks memcached's text protocol"),
    refused("rep_write", Some('p'), true, "replicate with weir proxy --replicas instead"),
];

#[cfg(test)]
mod tests {
    use super::super::tests::line as like;
    use super::*;

    const SMALLVALUE: &str = "#comments should start with '#'\n#key\n#start_len end_len proportion\nkey\n16 16 1\nvalue\n128 128 1\n\ncmd\n0    0.01\n1    0.99\n";

    fn line(words: &str, file: &str) -> Result<String, String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        translate(&words, &|_| Ok(file.to_owned())).map(|translation| translation.line())
    }

    #[test]
    fn the_studies_command_lines() {
        let found =
            line("-s 10.0.0.4:11212 -T 64 -c 64 -o 0.9 -S 1s -t 1h -F smallvalue.cfg -w 1k", SMALLVALUE);
        let expected = "weir load --target 10.0.0.4:11212 --connections 64 --threads 64 --duration 1h --warmup 0s \
                        --mix set=0.01,get=0.99 --key-size 16 --value-size 128 --keys 65536";
        assert_eq!(found.as_deref(), Ok(expected));
        let words = ["-s", "a:1", "-o", "0.9", "-S1s", "-t30s"].map(str::to_owned);
        let notes = translate(&words, &|_| Ok(String::new())).expect("it is right").notes;
        assert_eq!(notes.len(), 2, "{notes:?}");
    }

    #[test]
    fn defaults_are_memaslaps() {
        let expected = "weir load --target a:11211 --connections 128 --threads 8 --requests 1000000 --mix set=0.1,get=0.9 \
                        --key-size 64 --value-size 1024 --keys 1310720";
        assert_eq!(line("--servers=a", ""), Ok(expected.to_owned()));
    }

    #[test]
    fn options_are_translated() {
        let check = |options: &str, part: &str| {
            let found = line(&format!("-s a:1 {options}"), SMALLVALUE).expect(options);
            assert!(found.contains(part), "{options}: {found}");
        };
        check("-s a:1,b:2", "--target a:1 --target b:2");
        check("-c 4", "--connections 4 --threads 4");
        check("-x 5000", "--requests 5000");
        check("-t 2d", "--duration 48h");
        check("-t 20", "--duration 20s");
        check("-X 4096 -F f", "--value-size 4096");
        check("-d 10", "--mix set=0.1,get=0.09 --multiget 10");
        check("-P 40k", "--rate 40000");
        check("-w 40 -c 2", "--keys 80");
    }

    #[test]
    fn files_with_several_ranges_become_lists() {
        let file = "key\n16 16 0.5\n17 40 0.5\nvalue\n1 10 0.25\n100 100 0.75\ncmd\n1 1\n";
        let found = line("-s a:1 -F f", file).expect("the file is right");
        assert!(
            found.contains("--mix set=0,get=1 --key-size 16=0.5,17-40=0.5 --value-size 1-10=0.25,100=0.75"),
            "{found}"
        );
    }

    #[test]
    fn what_is_wrong_in_a_file_is_reported_with_its_line() {
        for (file, fault) in [
            ("16 16 1\n", "line 1: \"16 16 1\": expected one of the sections"),
            ("key\n16 16\n", "line 2: \"16 16\": expected LEAST MOST SHARE"),
            ("key\n\n# x\na b c\n", "line 4: \"a b c\": expected LEAST MOST SHARE"),
            ("cmd\n2 1\n", "line 2: \"2 1\": expected 0 for sets"),
            ("cmd\n0 x\n", "line 2: \"0 x\": expected a share"),
        ] {
            let error = line("-s a:1 -F sizes.cfg", file).expect_err(file);
            assert!(error.starts_with("memaslap --cfg_cmd sizes.cfg: ") && error.contains(fault), "{error}");
        }
        let error = like("--like memaslap -s a:1 -F /nonexistent/file").expect_err("there is no such file");
        assert!(error.contains("/nonexistent/file: No such file"), "{error}");
    }

    #[test]
    fn what_has_no_equal_is_refused_with_advice() {
        for (options, advice) in [
            ("-t 1s", "say where to connect"),
            ("-s a -U", "speaks TCP"),
            ("-s a -B", "text protocol"),
            ("-s a -p 2", "weir proxy --replicas"),
            ("-s a -e 0.1", "--ttl"),
            ("-s a -n 2", "give more --concurrency"),
            ("-s a -t 1s -x 5", "either --time or --execute_number"),
            ("-s a -w x", "such as 10k"),
            ("-s a -t 1w", "expected a number and s, m, h or d"),
        ] {
            let error = line(options, "").expect_err(options);
            assert!(error.contains(advice), "{options}: {error}");
        }
    }
}
