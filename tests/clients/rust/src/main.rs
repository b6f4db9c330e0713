//! Flows of the crate `memcache`, in its text protocol, against one address: `flows HOST PORT`.
//! One line per flow: passed, failed or skipped.
//!
//! `FLOWS_CA` names a file with the authority of a server that speaks TLS. `FLOWS_CERT` and `FLOWS_KEY` are files with
//! what the client shows to one that wants a certificate. `FLOWS_LOGIN` is a name, a space and a password for one that
//! wants a login.

use memcache::{Client, ClientError, CommandError, MemcacheError};
use std::{collections::HashMap, env, process::ExitCode, thread};

type Bytes = Vec<u8>;
type Found = (Bytes, u32, Option<u64>);

enum Trouble {
    Failed(String),
    /// The client has no such call, or it does not work against any server.
    Cannot(&'static str),
}

impl From<MemcacheError> for Trouble {
    fn from(error: MemcacheError) -> Self {
        Self::Failed(error.to_string())
    }
}

type Outcome = Result<(), Trouble>;
type Flow = fn(&Client) -> Outcome;

const FLOWS: [(&str, Flow); 25] = [
    ("set and get", set_and_get),
    ("absent key", absent_key),
    ("flags", flags),
    ("multi-get", multi_get),
    ("add", add),
    ("replace", replace),
    ("append and prepend", append_and_prepend),
    ("cas", cas),
    ("incr and decr", incr_and_decr),
    ("incr of text", incr_of_text),
    ("touch", touch),
    ("get and touch", |_| Err(Trouble::Cannot("the client has no get and touch"))),
    ("expired at once", expired_at_once),
    ("delete", deletion),
    ("noreply", |_| Err(Trouble::Cannot("the client always waits for a reply"))),
    ("empty value", empty_value),
    ("values like the protocol", values_like_the_protocol),
    ("large value", large_value),
    ("value too large", value_too_large),
    ("longest key", longest_key),
    ("key too long", key_too_long),
    ("version", version),
    ("stats", |_| {
        Err(Trouble::Cannot("in the text protocol the client stops at the first line of any answer"))
    }),
    ("concurrency", concurrency),
    ("flush", flush),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [host, port] = &arguments[..] else {
        eprintln!("usage: flows HOST PORT");
        return ExitCode::from(2);
    };
    let client = match Client::with_pool_size(url(host, port), 8) {
        Ok(client) => client,
        Err(error) => {
            eprintln!("cannot connect to {host}:{port}: {error}");
            return ExitCode::FAILURE;
        }
    };
    for (name, flow) in FLOWS {
        match flow(&client) {
            Ok(()) => println!("passed {name}"),
            Err(Trouble::Cannot(reason)) => println!("skipped {name}: {reason}"),
            Err(Trouble::Failed(why)) => println!("failed {name}: {}", why.escape_debug()),
        }
    }
    ExitCode::SUCCESS
}

/// All that the client is to do stands in its URL. It logs in with a `set` in front of what it sends on a connection.
fn url(host: &str, port: &str) -> String {
    let named = |variable| env::var(variable).ok();
    let tls = if named("FLOWS_CA").is_some() { "+tls" } else { "" };
    let login = named("FLOWS_LOGIN").map_or(String::new(), |words| words.replace(' ', ":") + "@");
    let files: String = [("ca_path", "FLOWS_CA"), ("cert_path", "FLOWS_CERT"), ("key_path", "FLOWS_KEY")]
        .into_iter()
        .filter_map(|(parameter, variable)| Some(format!("&{parameter}={}", named(variable)?)))
        .collect();
    format!("memcache{tls}://{login}{host}:{port}?protocol=ascii&timeout=20&tcp_nodelay=true{files}")
}

fn set_and_get(client: &Client) -> Outcome {
    for value in ["value", "other"] {
        client.set("set:key", value, 0)?;
        holds(client, "set:key", value.as_bytes())?;
    }
    Ok(())
}

fn absent_key(client: &Client) -> Outcome {
    absent(client, "absent:key")
}

fn flags(client: &Client) -> Outcome {
    client.set("flags:key", "value", 0)?;
    let found: Option<Found> = client.get("flags:key")?;
    check(matches!(&found, Some((_, 0, Some(_)))), || format!("{found:?}"))
}

fn multi_get(client: &Client) -> Outcome {
    let keys: Vec<String> = (0..300).map(|number| format!("multi:{number}")).collect();
    for key in &keys {
        client.set(key, format!("value of {key}"), 0)?;
    }
    let names: Vec<&str> = keys.iter().map(String::as_str).chain(["multi:absent"]).collect();
    let found: HashMap<String, String> = client.gets(&names)?;
    check(found.len() == keys.len(), || format!("{} values for {} keys", found.len(), keys.len()))?;
    keys.iter().try_for_each(|key| {
        check(found.get(key) == Some(&format!("value of {key}")), || format!("{key}: {:?}", found.get(key)))
    })
}

fn add(client: &Client) -> Outcome {
    client.add("add:key", "first", 0)?;
    client.add("add:key", "second", 0)?; // the client does not tell whether it was stored
    holds(client, "add:key", b"first")
}

fn replace(client: &Client) -> Outcome {
    client.replace("replace:key", "new", 0)?;
    absent(client, "replace:key")?;
    client.set("replace:key", "old", 0)?;
    client.replace("replace:key", "new", 0)?;
    holds(client, "replace:key", b"new")
}

fn append_and_prepend(client: &Client) -> Outcome {
    client.append("append:key", "-end")?;
    client.prepend("append:key", "start-")?;
    absent(client, "append:key")?;
    client.set("append:key", "middle", 0)?;
    client.append("append:key", "-end")?;
    client.prepend("append:key", "start-")?;
    holds(client, "append:key", b"start-middle-end")
}

fn cas(client: &Client) -> Outcome {
    client.set("cas:key", "first", 0)?;
    let Some((_, _, Some(token))) = client.get::<Found>("cas:key")? else {
        return Err(Trouble::Failed("no cas token".into()));
    };
    check(client.cas("cas:key", "second", 0, token)?, || "refused with the right token".into())?;
    check(!client.cas("cas:key", "third", 0, token)?, || "stored with an old token".into())?;
    holds(client, "cas:key", b"second")?;
    client.delete("cas:key")?;
    check(!client.cas("cas:key", "third", 0, token)?, || "stored under an absent key".into())
}

fn incr_and_decr(client: &Client) -> Outcome {
    let missing = client.increment("number:absent", 1);
    let is_missing = matches!(missing, Err(MemcacheError::CommandError(CommandError::KeyNotFound)));
    check(is_missing, || format!("incr of an absent key: {missing:?}"))?;
    client.set("number:key", "10", 0)?;
    let found = [
        client.increment("number:key", 5)?,
        client.decrement("number:key", 3)?,
        client.decrement("number:key", 100)?,
        client.increment("number:key", u64::MAX)?,
        client.increment("number:key", 2)?,
    ];
    check(found == [15, 12, 0, u64::MAX, 1], || format!("{found:?}"))
}

fn incr_of_text(client: &Client) -> Outcome {
    client.set("text:key", "text", 0)?;
    let found = client.increment("text:key", 1);
    let is_refused = matches!(&found, Err(error) if error.to_string().contains("non-numeric"));
    check(is_refused, || format!("{found:?}"))?;
    holds(client, "text:key", b"text")
}

fn touch(client: &Client) -> Outcome {
    check(!client.touch("touch:key", 100)?, || "touched an absent key".into())?;
    client.set("touch:key", "value", 0)?;
    check(client.touch("touch:key", 100)?, || "did not find the key".into())?;
    holds(client, "touch:key", b"value")?;
    check(client.touch("touch:key", LONG_AGO)?, || "did not find the key again".into())?;
    absent(client, "touch:key")
}

/// Above 30 days a number is a date; this one is in January 1970.
const LONG_AGO: u32 = 60 * 60 * 24 * 30 + 1;

fn expired_at_once(client: &Client) -> Outcome {
    client.set("expired:key", "value", LONG_AGO)?;
    absent(client, "expired:key")
}

fn deletion(client: &Client) -> Outcome {
    check(!client.delete("delete:key")?, || "deleted an absent key".into())?;
    client.set("delete:key", "value", 0)?;
    check(client.delete("delete:key")?, || "did not find the key".into())?;
    absent(client, "delete:key")
}

fn empty_value(client: &Client) -> Outcome {
    client.set("empty:key", "", 0)?;
    holds(client, "empty:key", b"")
}

fn values_like_the_protocol(client: &Client) -> Outcome {
    let every: Bytes = (0..=255).collect();
    for value in [&b"END\r\n"[..], b"\r\n", b"STORED\r\nEND\r\n", b"VALUE key 0 3\r\nabc\r\n", &every] {
        client.set("binary:key", value, 0)?;
        holds(client, "binary:key", value)?;
    }
    Ok(())
}

fn large_value(client: &Client) -> Outcome {
    let value: Bytes =
        (0..1_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    client.set("large:key", &value[..], 0)?;
    holds(client, "large:key", &value)
}

fn value_too_large(client: &Client) -> Outcome {
    let found = client.set("too-large:key", &vec![0; 2 << 20][..], 0);
    let is_refused = matches!(&found, Err(error) if error.to_string().contains("too large"));
    check(is_refused, || format!("{found:?}"))?;
    client.set("too-large:key", "value", 0)?;
    holds(client, "too-large:key", b"value")
}

fn longest_key(client: &Client) -> Outcome {
    let key = format!("longest:{}", "k".repeat(242));
    client.set(&key, "value", 0)?;
    holds(client, &key, b"value")
}

fn key_too_long(client: &Client) -> Outcome {
    let found = client.set(&"k".repeat(251), "value", 0);
    let is_refused = matches!(&found, Err(MemcacheError::ClientError(ClientError::KeyTooLong)));
    check(is_refused, || format!("{found:?}"))
}

fn version(client: &Client) -> Outcome {
    let found = client.version()?;
    check(found.len() == 1 && found[0].1.starts_with("1."), || format!("{found:?}"))
}

fn concurrency(client: &Client) -> Outcome {
    let worker = |number: u32| -> Result<(), String> {
        for turn in 0..250_u32 {
            let (key, value) = (format!("concurrency:{number}:{}", turn % 10), format!("{number} {turn}"));
            client.set(&key, &value, 0).map_err(|error| error.to_string())?;
            let found: Option<String> = client.get(&key).map_err(|error| error.to_string())?;
            if found.as_ref() != Some(&value) {
                return Err(format!("{key}: {found:?} instead of {value:?}"));
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..8).map(|number| scope.spawn(move || worker(number))).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| Err("a thread panicked".into())))
    })
    .map_err(Trouble::Failed)
}

fn flush(client: &Client) -> Outcome {
    client.set("flush:key", "value", 0)?;
    client.flush()?;
    absent(client, "flush:key")
}

fn holds(client: &Client, key: &str, value: &[u8]) -> Outcome {
    let found: Option<Bytes> = client.get(key)?;
    check(found.as_deref() == Some(value), || {
        let shown = |bytes: &[u8]| bytes[..bytes.len().min(60)].escape_ascii().to_string();
        format!("{key:.40}: {:?} instead of {}", found.as_deref().map(shown), shown(value))
    })
}

fn absent(client: &Client, key: &str) -> Outcome {
    let found: Option<Bytes> = client.get(key)?;
    check(found.is_none(), || format!("{key}: {} bytes instead of none", found.unwrap_or_default().len()))
}

fn check(holds: bool, why: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(Trouble::Failed(why())) }
}
