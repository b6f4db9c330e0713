//! Keys through the other proxy, and at the servers: written, read and deleted.

use std::collections::HashMap;
use std::sync::mpsc::channel;
use std::time::Duration;

use weir_routing::{Endpoint, REPLICAS_MAX, Table};

use super::verdict::{EXPIRY_S, Elsewhere, Verdict};
use super::wire::Wire;

/// Keys of one exchange: replies to this many fit into the buffers between, so nobody waits for the other to read.
const BATCH: usize = 50;

/// Of keys that are elsewhere, how many are looked for and reported.
const REPORTED_MAX: usize = 5;

/// Copies may arrive behind the answer: how often a missing one is asked for, and how long is waited between.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(100);

/// Who is asked for what.
pub(super) struct Check {
    /// The other proxy.
    pub(super) old: Endpoint,
    pub(super) table: Table,
    /// The file's pools that are not in the table.
    pub(super) unverified: Vec<String>,
    pub(super) keys: Vec<String>,
    /// Of each exchange.
    pub(super) timeout: Duration,
}

impl Check {
    /// Does it all; `proxy` is what the proxy is called.
    pub(super) fn run(&self, proxy: &str) -> Result<Verdict, String> {
        let mut old = Wire::connect(&self.old, self.timeout)?;
        let mut begun = 0;
        let looked = self.write(&mut old, &mut begun).and_then(|()| self.read());
        // Whatever happened: what was begun is deleted.
        let left = self.delete(old, begun);
        let (agreed, elsewhere) = looked.map_err(|reason| match left {
            0 => reason,
            left => format!("{reason}; {left} keys may be left, which expire within {EXPIRY_S} s"),
        })?;
        Ok(Verdict {
            proxy: proxy.to_owned(),
            pools: self.table.pools().iter().map(|pool| pool.name().to_owned()).collect(),
            unverified: self.unverified.clone(),
            keys: self.keys.len(),
            agreed,
            elsewhere,
            left,
        })
    }

    /// Adds all keys through the proxy, and counts those that it was asked to.
    fn write(&self, old: &mut Wire, begun: &mut usize) -> Result<(), String> {
        for batch in self.keys.chunks(BATCH) {
            let requests: String = batch
                .iter()
                .map(|key| format!("add {key} 0 {EXPIRY_S} {}\r\n{key}\r\n", key.len()))
                .collect();
            *begun += batch.len();
            old.send(requests.as_bytes())?;
            let mut refused = None;
            for key in batch {
                let reply = old.line()?;
                if reply != "STORED" {
                    refused.get_or_insert_with(|| format!("it answers {reply:?} to add {key}"));
                }
            }
            if let Some(reason) = refused {
                return Err(reason);
            }
        }
        Ok(())
    }

    /// How many keys are where they should be, and some of the others.
    fn read(&self) -> Result<(usize, Vec<Elsewhere>), String> {
        let mut wires = Servers { table: &self.table, timeout: self.timeout, wires: HashMap::new() };
        let mut wanted: Vec<(u16, &str)> = Vec::new();
        let mut room = [0; REPLICAS_MAX];
        for key in &self.keys {
            let count = self.table.replicas_of(key.as_bytes(), &mut room);
            wanted.extend(room[..count].iter().map(|place| (*place, key.as_str())));
        }
        let has_copies = wanted.len() > self.keys.len();
        wanted.sort_unstable();
        for attempt in 1..=TRIES {
            wanted = wires.lacking(&wanted)?;
            if wanted.is_empty() || !has_copies || attempt == TRIES {
                break;
            }
            // Nobody ever sends: this is a pause.
            let (_never, pause) = channel::<()>();
            let _ = pause.recv_timeout(PAUSE);
        }
        wanted.sort_unstable_by_key(|(place, key)| (*key, *place));
        wanted.dedup_by_key(|(_, key)| *key);
        let mut elsewhere = Vec::new();
        for (place, key) in wanted.iter().take(REPORTED_MAX) {
            let all: Vec<_> = (0..self.table.servers().len() as u16).map(|place| (place, *key)).collect();
            let lacking = wires.lacking(&all)?;
            let name = |place: u16| self.table.servers()[usize::from(place)].to_string();
            let found = all.iter().filter(|one| !lacking.contains(one)).map(|(place, _)| name(*place));
            elsewhere.push(Elsewhere {
                key: (*key).to_owned(),
                expected: name(*place),
                found: found.collect(),
            });
        }
        Ok((self.keys.len() - wanted.len(), elsewhere))
    }

    /// Deletes the first keys, and says how many may be left.
    fn delete(&self, old: Wire, begun: usize) -> usize {
        let keys = &self.keys[..begun];
        // After an error it may still owe replies to what was asked before.
        drop(old);
        let through = Wire::connect(&self.old, self.timeout).map(|mut old| delete(&mut old, keys));
        let left = through.unwrap_or_else(|_| keys.iter().map(String::as_str).collect());
        // What the proxy does not find may be where it should be.
        let mut by_server: HashMap<usize, Vec<&str>> = HashMap::new();
        let mut room = [0; REPLICAS_MAX];
        for key in left {
            let count = self.table.replicas_of(key.as_bytes(), &mut room);
            for place in &room[..count] {
                by_server.entry(usize::from(*place)).or_default().push(key);
            }
        }
        let mut may_be_left: Vec<&str> = Vec::new();
        for (place, keys) in by_server {
            let endpoint = &self.table.servers()[place].endpoint;
            let asked = Wire::connect(endpoint, self.timeout).and_then(|mut wire| absent(&mut wire, &keys));
            if asked.is_err() {
                may_be_left.extend(keys);
            }
        }
        may_be_left.sort_unstable();
        may_be_left.dedup();
        may_be_left.len()
    }
}

/// Deletes keys through a proxy, and gives those that it has not said to have deleted.
fn delete<'a>(old: &mut Wire, keys: &'a [String]) -> Vec<&'a str> {
    let mut left = Vec::new();
    for (done, batch) in keys.chunks(BATCH).enumerate() {
        let requests: String = batch.iter().map(|key| format!("delete {key}\r\n")).collect();
        let mut replies = old.send(requests.as_bytes()).map(|()| Vec::new());
        for key in batch {
            replies = replies.and_then(|mut replies| {
                replies.push((key, old.line()?));
                Ok(replies)
            });
        }
        let Ok(replies) = replies else {
            left.extend(keys[done * BATCH..].iter().map(String::as_str));
            return left;
        };
        left.extend(replies.iter().filter(|(_, reply)| reply != "DELETED").map(|(key, _)| key.as_str()));
    }
    left
}

/// Deletes keys at a server, so that none is there.
fn absent(wire: &mut Wire, keys: &[&str]) -> Result<(), String> {
    for batch in keys.chunks(BATCH) {
        let requests: String = batch.iter().map(|key| format!("delete {key}\r\n")).collect();
        wire.send(requests.as_bytes())?;
        for _ in batch {
            let reply = wire.line()?;
            if !["DELETED", "NOT_FOUND"].contains(&reply.as_str()) {
                return Err(reply);
            }
        }
    }
    Ok(())
}

/// Connections to servers, made when they are needed.
struct Servers<'a> {
    table: &'a Table,
    timeout: Duration,
    wires: HashMap<u16, Wire>,
}

impl Servers<'_> {
    /// Those of `wanted` that are not there: places of servers, next to each other where they are equal, and keys.
    fn lacking<'k>(&mut self, wanted: &[(u16, &'k str)]) -> Result<Vec<(u16, &'k str)>, String> {
        let mut lacking = Vec::new();
        for of_one in wanted.chunk_by(|one, other| one.0 == other.0) {
            let place = of_one[0].0;
            for batch in of_one.chunks(BATCH) {
                let found = self.found(place, batch).map_err(|reason| {
                    format!("{reason} (the servers of the file must be reachable from here)")
                })?;
                lacking.extend(
                    batch
                        .iter()
                        .filter(|(_, key)| found.get(*key).map(Vec::as_slice) != Some(key.as_bytes())),
                );
            }
        }
        Ok(lacking)
    }

    fn found(&mut self, place: u16, batch: &[(u16, &str)]) -> Result<HashMap<String, Vec<u8>>, String> {
        let wire = match self.wires.entry(place) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let endpoint = &self.table.servers()[usize::from(place)].endpoint;
                entry.insert(Wire::connect(endpoint, self.timeout)?)
            }
        };
        let keys: String = batch.iter().map(|(_, key)| format!(" {key}")).collect();
        wire.send(format!("get{keys}\r\n").as_bytes())?;
        Ok(wire.values()?.into_iter().collect())
    }
}
