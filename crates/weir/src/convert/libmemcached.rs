//! From a configuration string of libmemcached: `--SERVER=cache-1:11211/?2 --DISTRIBUTION=consistent --HASH=MD5`.

use weir_routing::{Endpoint, KeyHash, Options, Placement, Server, Weight};

use super::converted::{Converted, ConvertedPool};

/// memcached's port, which the library takes where none is given.
const DEFAULT_PORT: u16 = 11_211;

/// What the library says of itself, by option: whether a value follows.
const NOTED: &[(&str, bool, &str)] = &[
    ("BINARY-PROTOCOL", false, "clients must leave it out, as Weir speaks the text protocol"),
    ("BUFFER-REQUESTS", false, "it stays with the clients"),
    ("FETCH-VERSION", false, "it stays with the clients"),
    ("IO-BYTES-WATERMARK", true, "it stays with the clients"),
    ("IO-KEY-PREFETCH", true, "it stays with the clients"),
    ("IO-MSG-WATERMARK", true, "it stays with the clients"),
    ("NOREPLY", false, "it stays with the clients"),
    ("POOL-MAX", true, "it stays with the clients"),
    ("POOL-MIN", true, "it stays with the clients"),
    ("RANDOMIZE-REPLICA-READ", false, "there are no replicas to choose from"),
    ("RCV-TIMEOUT", true, "it stays with the clients"),
    ("REMOVE-FAILED-SERVERS", true, "keys never move because a server is down"),
    ("RETRY-TIMEOUT", true, "a server that is down is tried again by itself"),
    ("SND-TIMEOUT", true, "it stays with the clients"),
    ("SOCKET-RECV-SIZE", true, "it stays with the clients"),
    ("SOCKET-SEND-SIZE", true, "it stays with the clients"),
    ("SUPPORT-CAS", false, "it stays with the clients"),
    ("TCP-KEEPALIVE", false, "it stays with the clients; Weir's is `keepalive`"),
    ("TCP-KEEPIDLE", false, "it stays with the clients; Weir's is `keepalive`"),
    ("TCP-NODELAY", false, "it stays with the clients"),
    ("USER-DATA", false, "it stays with the clients"),
    ("USE-UDP", false, "clients must leave it out, as Weir speaks TCP"),
    ("VERIFY-KEY", false, "it stays with the clients"),
];

/// Names of hashes as the string has them.
const HASHES: &[(&str, KeyHash)] = &[
    ("MD5", KeyHash::Md5),
    ("CRC", KeyHash::Crc32),
    ("FNV1_64", KeyHash::Fnv1_64),
    ("FNV1A_64", KeyHash::Fnv1a64),
    ("FNV1_32", KeyHash::Fnv1_32),
    ("FNV1A_32", KeyHash::Fnv1a32),
    ("HSIEH", KeyHash::Hsieh),
    ("MURMUR", KeyHash::Murmur),
    ("JENKINS", KeyHash::Jenkins),
];

/// What the string has said so far. The library acts on each option as it comes, so their order counts: a ring is made by the hash of
/// that moment, and weights count where they follow the distribution.
#[derive(Debug, Default)]
struct Said {
    servers: Vec<Server>,
    distribution: Distribution,
    hash: Option<KeyHash>,
    /// By what the ring was made.
    ring_hash: Option<KeyHash>,
    sort_hosts: bool,
    namespace: bool,
    hash_with_namespace: bool,
    timeout_ms: Option<u64>,
    connect_timeout_ms: Option<u64>,
    notes: Vec<String>,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Distribution {
    #[default]
    Modula,
    /// A ring with as many points for each server, by the keys' hash.
    Consistent,
    /// A ring with points by weight, by MD5.
    Weighted,
}

/// The pool that places keys as a client of the library does.
pub(super) fn convert(text: &str) -> Result<Converted, String> {
    let mut said = Said::default();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    for line in lines {
        for word in words(line)? {
            if word.eq_ignore_ascii_case("END") {
                return said.converted();
            }
            said.take(&word).map_err(|reason| format!("{word}: {reason}"))?;
        }
    }
    said.converted()
}

/// What stands between blanks. Text in quotes may have blanks.
fn words(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            _ if c.is_whitespace() && !quoted => words.push(std::mem::take(&mut word)),
            _ => {
                quoted ^= c == '"';
                word.push(c);
            }
        }
    }
    if quoted {
        return Err(format!("the quotes of {word:?} do not end"));
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    Ok(words)
}

impl Said {
    fn take(&mut self, word: &str) -> Result<(), String> {
        let Some(option) = word.strip_prefix("--") else {
            return Err(match word.to_ascii_uppercase().as_str() {
                "INCLUDE" => "has no equal: give the file that it names".to_owned(),
                _ => "is no option of a configuration string".to_owned(),
            });
        };
        let (name, value) =
            option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        let name = name.to_ascii_uppercase();
        if let Some((_, has_value, reason)) = NOTED.iter().find(|row| row.0 == name) {
            if *has_value != value.is_some() {
                return Err(if *has_value { "has no value" } else { "takes no value" }.to_owned());
            }
            self.notes.push(format!("--{name} has no equal: {reason}"));
            return Ok(());
        }
        let needed = || value.ok_or_else(|| "has no value".to_owned());
        match name.as_str() {
            "SERVER" => self.add(server(needed()?)?),
            "SOCKET" => self.add(socket(needed()?)?),
            "DISTRIBUTION" => self.distribute(needed()?)?,
            "HASH" if self.hash.is_some() => return Err("a second hash".to_owned()),
            "HASH" => self.hash = Some(hash(needed()?)?),
            "SORT-HOSTS" => {
                self.sort_hosts = true;
                self.ring_hash = self.hash;
            }
            "NAMESPACE" => self.namespace = true,
            "HASH-WITH-NAMESPACE" => self.hash_with_namespace = true,
            "POLL-TIMEOUT" => self.timeout_ms = milliseconds(needed()?)?,
            "CONNECT-TIMEOUT" => self.connect_timeout_ms = milliseconds(needed()?)?,
            "NUMBER-OF-REPLICAS" if needed()? == "0" => {}
            "NUMBER-OF-REPLICAS" => {
                return Err("has no equal: the library writes copies by the binary protocol alone, and reads them by chance. \
                            Nearest: `replicas` of Weir, one more than here. To convert, remove it and add `replicas` to what comes out; \
                            keys stay where they are"
                    .to_owned());
            }
            "CONFIGURE-FILE" => return Err("has no equal: give that file".to_owned()),
            _ => return Err("is no option of a configuration string".to_owned()),
        }
        Ok(())
    }

    fn add(&mut self, server: Server) {
        if self.distribution == Distribution::Consistent && server.weight > Weight::ONE {
            self.distribution = Distribution::Weighted;
        }
        self.ring_hash = self.hash;
        self.servers.push(server);
    }

    /// `consistent` or `consistent,MD5`. The second name changes nothing: the library hashes points as keys, or by MD5.
    fn distribute(&mut self, value: &str) -> Result<(), String> {
        let upper = value.to_ascii_uppercase();
        let (distribution, points) = upper.split_once(',').map_or((&*upper, None), |(d, p)| (d, Some(p)));
        self.distribution = match distribution {
            "CONSISTENT" => Distribution::Consistent,
            "MODULA" => Distribution::Modula,
            "RANDOM" => {
                return Err("has no equal: keys would have no place. Nearest: modula or consistent. To convert, take one; a random \
                            placement finds nothing again, so nothing is lost"
                    .to_owned());
            }
            _ => return Err("is none of consistent, modula and random".to_owned()),
        };
        points.map(hash).transpose()?;
        self.ring_hash = self.hash;
        Ok(())
    }

    fn converted(mut self) -> Result<Converted, String> {
        if self.servers.is_empty() {
            return Err("there is no --SERVER".to_owned());
        }
        if self.namespace && !self.hash_with_namespace {
            return Err("--NAMESPACE without --HASH-WITH-NAMESPACE has no equal: the library hashes keys without their prefix, and \
                        Weir sees them with it. Nearest: the same with --HASH-WITH-NAMESPACE. To convert, add that; keys will move"
                .to_owned());
        }
        if self.namespace {
            self.notes
                .push("--NAMESPACE stays with the clients, which send keys with their prefix".to_owned());
        }
        if self.sort_hosts {
            self.servers.sort_by(|one, other| order(one).cmp(&order(other)));
        }
        if self.distribution == Distribution::Consistent && self.ring_hash != self.hash {
            return Err("--HASH behind --SERVER and --DISTRIBUTION=consistent has no equal: the ring is made by one hash, and keys are \
                        looked for on it by another. Nearest: --HASH before them. To convert, write it there; keys will move"
                .to_owned());
        }
        if self.distribution != Distribution::Weighted
            && self.servers.iter().any(|server| server.weight != Weight::ONE)
        {
            self.notes.push(
                "weights are left out: the library uses those that follow --DISTRIBUTION=consistent alone"
                    .to_owned(),
            );
            for server in &mut self.servers {
                server.weight = Weight::ONE;
            }
        }
        let is_ring = self.distribution != Distribution::Modula;
        for server in &mut self.servers {
            if let (true, Endpoint::Unix { path }) = (is_ring, &server.endpoint) {
                // On its ring a --SOCKET has port 0, where other sockets have none.
                server.name = format!("{path}:0");
            }
        }
        let placement =
            if is_ring { Placement::LibmemcachedConsistent } else { Placement::LibmemcachedDefault };
        let options = Options { hash: self.hash, ..Options::new(placement) };
        let pool = ConvertedPool {
            timeout_ms: self.timeout_ms,
            notes: self.notes,
            ..ConvertedPool::new("main".to_owned(), self.servers, options)
        };
        let proxy = self.connect_timeout_ms.map(|timeout| ("connect_timeout", format!("{timeout}ms")));
        Ok(Converted { pools: vec![pool], proxy: proxy.into_iter().collect(), ..Converted::default() })
    }
}

/// By host and port, as the library sorts.
fn order(server: &Server) -> (&[u8], u16) {
    match &server.endpoint {
        Endpoint::Tcp { host, port } => (host.as_bytes(), *port),
        Endpoint::Unix { path } => (path.as_bytes(), 0),
    }
}

/// `HOST`, `HOST:PORT`, either with `/?WEIGHT` behind it.
fn server(text: &str) -> Result<Server, String> {
    let (address, weight) = weight(text);
    let address =
        if address.contains(':') { address.to_owned() } else { format!("{address}:{DEFAULT_PORT}") };
    parsed(&address, weight)
}

/// `"/PATH"`, and `/?WEIGHT` behind the quotes.
fn socket(text: &str) -> Result<Server, String> {
    let (path, weight) = match text.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
        Some((path, _)) if path.contains("/?") => {
            return Err(
                "the library takes a weight within the quotes for a part of the path: write it behind them"
                    .to_owned(),
            );
        }
        Some((path, rest)) => {
            (path, rest.strip_prefix("/?").unwrap_or(if rest.is_empty() { "1" } else { rest }))
        }
        None => weight(text),
    };
    parsed(&format!("unix:{path}"), weight)
}

fn weight(text: &str) -> (&str, &str) {
    text.split_once("/?").unwrap_or((text, "1"))
}

fn parsed(address: &str, weight: &str) -> Result<Server, String> {
    let server: Result<Server, _> = format!("{address}:{weight}").parse();
    server.map_err(|error| error.to_string())
}

fn hash(name: &str) -> Result<KeyHash, String> {
    let upper = name.to_ascii_uppercase();
    let known = HASHES.iter().find(|(name, _)| *name == upper);
    known.map(|(_, hash)| *hash).ok_or_else(|| "is none of the library's hashes".to_owned())
}

/// 0 is none.
fn milliseconds(text: &str) -> Result<Option<u64>, String> {
    let number: Result<u64, _> = text.parse();
    number
        .map(|number| Some(number).filter(|number| *number > 0))
        .map_err(|_| "is no number of milliseconds".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toml(text: &str) -> String {
        let converted = convert(text).unwrap();
        converted.check().unwrap();
        converted.to_toml()
    }

    #[test]
    fn a_string_becomes_a_pool() {
        let text = "--SERVER=cache-1 --server=10.0.0.2:11212/?3 --SOCKET=\"/run/m.sock\"/?2 --HASH=md5 --DISTRIBUTION=Consistent,CRC --SERVER=z \
                    --POLL-TIMEOUT=300 --CONNECT-TIMEOUT=100 --TCP-NODELAY --REMOVE-FAILED-SERVERS=2";
        let expected = "\
[proxy]
connect_timeout = \"100ms\"

[pools.main]
# --TCP-NODELAY has no equal: it stays with the clients
# --REMOVE-FAILED-SERVERS has no equal: keys never move because a server is down
# weights are left out: the library uses those that follow --DISTRIBUTION=consistent alone
servers = [
  \"cache-1:11211:1\",
  \"10.0.0.2:11212:1\",
  \"unix:/run/m.sock:1 /run/m.sock:0\",
  \"z:11211:1\",
]
placement = \"libmemcached/consistent\"
hash = \"md5\"
timeout = \"300ms\"
";
        assert_eq!(toml(text), expected);
        assert_eq!(toml(&format!("# a file\n{}\nEND\nnonsense", text.replace(' ', "\n"))), expected);
    }

    #[test]
    fn without_more_it_is_the_library_s_default() {
        let text = toml("--SERVER=b:2 --SERVER=a:1");
        assert!(
            text.ends_with("\"b:2:1\",\n  \"a:1:1\",\n]\nplacement = \"libmemcached/default\"\n"),
            "{text}"
        );
        let weighted = toml("--SERVER=a:1/?1 --DISTRIBUTION=consistent --SERVER=b:2/?3 --HASH=MD5");
        assert!(
            weighted.contains("\"a:1:1\",\n  \"b:2:3\",\n]\nplacement = \"libmemcached/consistent\""),
            "{weighted}"
        );
        let sorted = toml("--SERVER=b:2 --SERVER=b:1 --SERVER=a:9 --SORT-HOSTS --DISTRIBUTION=modula");
        assert!(sorted.contains("\"a:9:1\",\n  \"b:1:1\",\n  \"b:2:1\","), "{sorted}");
    }

    #[test]
    fn what_would_move_keys_is_refused() {
        let check = |text: &str, expected: &str| {
            let reason = convert(text).map(|converted| converted.to_toml()).unwrap_err();
            assert!(reason.contains(expected), "{text}: {reason}");
        };
        check("", "there is no --SERVER");
        check("--SERVER=a --DISTRIBUTION=random", "keys would have no place. Nearest: modula");
        check("--SERVER=a --DISTRIBUTION=other", "is none of consistent, modula and random");
        check("--SERVER=a --DISTRIBUTION=consistent,SHA1", "is none of the library's hashes");
        check("--SERVER=a --DISTRIBUTION=consistent --HASH=MD5", "the ring is made by one hash");
        check("--SERVER=a --HASH=sha1", "is none of the library's hashes");
        check("--SERVER=a --HASH=MD5 --HASH=CRC", "a second hash");
        check("--SERVER=a --NAMESPACE=x:", "without --HASH-WITH-NAMESPACE has no equal");
        check("--SERVER=a --NUMBER-OF-REPLICAS=1", "Nearest: `replicas` of Weir");
        check("--SERVER=a:b", "has no valid port");
        check("--SERVER=a/?0 --DISTRIBUTION=consistent", "is no number above 0");
        check("--SERVER", "has no value");
        check("--TCP-NODELAY=1", "takes no value");
        check("--SERVER=a --CONFIGURE-FILE=x", "give that file");
        check("--SERVER=a INCLUDE x", "give the file that it names");
        check("--SERVER=a --KETAMA", "is no option");
        check("--SERVER=\"a", "do not end");
        check("--SOCKET=\"/a/?2\"", "write it behind them");
        check("--SOCKET=\"/a\"2x", "\"2x\" is no number");
    }

    /// Whatever a slip does to a string, it is converted or refused.
    #[test]
    fn no_changed_byte_panics() {
        let good = "--SERVER=a:1/?2 --SOCKET=\"/x y\"/?1 --DISTRIBUTION=consistent --HASH=MD5 --POLL-TIMEOUT=3\n# x\nEND";
        for place in 0..good.len() {
            for other in ["", "\"", "=", " ", "/?", ":", "\n", "#", "-", "0", "é"] {
                let mut text = good.to_owned();
                text.replace_range(place..=place, other);
                if let Ok(converted) = convert(&text) {
                    assert!(!converted.to_toml().is_empty());
                }
            }
        }
    }
}
