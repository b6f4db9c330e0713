//! For tests: a cache that answers requests as memcached does, bytes in and bytes out.

use std::collections::HashMap;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) flags: String,
    pub(crate) data: Vec<u8>,
    pub(crate) cas: u64,
}

/// Items by key; nothing is evicted and nothing expires.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    pub(crate) items: HashMap<String, Item>,
    writes: u64,
}

impl Cache {
    /// The replies to whole requests, one for each.
    pub(crate) fn answer(&mut self, mut requests: &[u8]) -> Vec<Vec<u8>> {
        let mut replies = Vec::new();
        while !requests.is_empty() {
            let end = requests.windows(2).position(|bytes| bytes == b"\r\n").expect("a whole line");
            let line = String::from_utf8(requests[..end].to_vec()).expect("request lines are text");
            requests = &requests[end + 2..];
            let words: Vec<&str> = line.split(' ').collect();
            let size = match words[0] {
                "set" | "add" | "replace" | "append" | "prepend" | "cas" => words[4].parse().ok(),
                "ms" => words[2].parse().ok(),
                _ => None,
            };
            let data = size.map(|size: usize| {
                let data = requests[..size].to_vec();
                assert_eq!(
                    &requests[size..size + 2],
                    b"\r\n",
                    "the data block ends where its length says: {line}"
                );
                requests = &requests[size + 2..];
                data
            });
            replies.push(self.answer_one(&words, data));
        }
        replies
    }

    fn answer_one(&mut self, words: &[&str], data: Option<Vec<u8>>) -> Vec<u8> {
        match words[0] {
            "get" | "gets" => self.values(&words[1..], words[0] == "gets"),
            "gat" | "gats" => self.values(&words[2..], words[0] == "gats"),
            "mg" => match self.items.get(words[1]) {
                None => b"EN\r\n".to_vec(),
                Some(item) => {
                    let line = format!("VA {} f{} k{}\r\n", item.data.len(), item.flags, words[1]);
                    [line.as_bytes(), &item.data, b"\r\n"].concat()
                }
            },
            "ms" => {
                let flags = words.iter().find_map(|word| word.strip_prefix('F')).expect("flags");
                self.store(words[1], flags, data.expect("ms carries data"));
                b"HD\r\n".to_vec()
            }
            "delete" => reply(self.items.remove(words[1]).is_some(), "DELETED", "NOT_FOUND"),
            "touch" => reply(self.items.contains_key(words[1]), "TOUCHED", "NOT_FOUND"),
            "incr" | "decr" => self.count(words[1], words[0] == "incr"),
            name => self.storage(name, words, data.expect("storage commands carry data")),
        }
    }

    fn values(&self, keys: &[&str], tokens: bool) -> Vec<u8> {
        let mut reply = Vec::new();
        for (key, item) in keys.iter().filter_map(|key| Some((key, self.items.get(*key)?))) {
            reply.extend(format!("VALUE {key} {} {}", item.flags, item.data.len()).bytes());
            reply.extend(if tokens { format!(" {}\r\n", item.cas).into_bytes() } else { b"\r\n".to_vec() });
            reply.extend(&item.data);
            reply.extend(b"\r\n");
        }
        reply.extend(b"END\r\n");
        reply
    }

    fn storage(&mut self, name: &str, words: &[&str], data: Vec<u8>) -> Vec<u8> {
        let known = self.items.get(words[1]).cloned();
        let data = match (name, known) {
            ("set", _) | ("add", None) | ("replace", Some(_)) => data,
            ("append", Some(item)) => [item.data, data].concat(),
            ("prepend", Some(item)) => [data, item.data].concat(),
            ("cas", Some(item)) if item.cas.to_string() == words[5] => data,
            ("cas", Some(_)) => return b"EXISTS\r\n".to_vec(),
            ("cas", None) => return b"NOT_FOUND\r\n".to_vec(),
            _ => return b"NOT_STORED\r\n".to_vec(),
        };
        self.store(words[1], words[2], data);
        b"STORED\r\n".to_vec()
    }

    fn count(&mut self, key: &str, up: bool) -> Vec<u8> {
        let Some(item) = self.items.get(key) else { return b"NOT_FOUND\r\n".to_vec() };
        let text = String::from_utf8_lossy(&item.data);
        let Ok(number) = text.trim_end().parse::<u64>() else {
            return b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n".to_vec();
        };
        let number = if up { number + 1 } else { number.saturating_sub(1) };
        let (flags, width) = (item.flags.clone(), item.data.len());
        // As memcached, which keeps the length where it can.
        self.store(key, &flags, format!("{number:<width$}").into_bytes());
        format!("{number}\r\n").into_bytes()
    }

    fn store(&mut self, key: &str, flags: &str, data: Vec<u8>) {
        self.writes += 1;
        self.items.insert(key.to_owned(), Item { flags: flags.to_owned(), data, cas: self.writes });
    }
}

fn reply(is: bool, yes: &str, no: &str) -> Vec<u8> {
    format!("{}\r\n", if is { yes } else { no }).into_bytes()
}
