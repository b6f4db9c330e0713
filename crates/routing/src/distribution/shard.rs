use super::furc::Furc;

/// mcrouter's ConstShard: a key `x:<digits>:y` names its server by number; any other goes by Ch3.
#[derive(Clone, Debug)]
pub(crate) struct ConstShard {
    buckets: usize,
    others: Furc,
}

impl ConstShard {
    /// Over `buckets` servers.
    pub(crate) fn new(buckets: usize) -> Self {
        Self { buckets, others: Furc::new(buckets) }
    }

    /// The bucket of `key`.
    pub(crate) fn bucket(&self, key: &[u8]) -> usize {
        named(key).filter(|bucket| *bucket < self.buckets).unwrap_or_else(|| self.others.bucket(key))
    }
}

/// The number between the key's first two colons.
fn named(key: &[u8]) -> Option<usize> {
    let mut parts = key.splitn(3, |byte| *byte == b':');
    let (_, number, _) = (parts.next()?, parts.next()?, parts.next()?);
    let digits = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(number).ok().filter(|_| digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_may_name_its_server() {
        let shards = ConstShard::new(10);
        let check = |key: &str, named: Option<usize>| {
            let expected = named.unwrap_or_else(|| Furc::new(10).bucket(key.as_bytes()));
            assert_eq!(shards.bucket(key.as_bytes()), expected, "{key}");
        };
        check("a:3:b", Some(3));
        check("a:007:b", Some(7));
        check(":9:", Some(9));
        check("a:10:b", None);
        check("a:99999999999999999999999:b", None);
        for key in ["", "a", "a:3", "a::b", "a:+3:b", "a:3x:b", "a:x3:b", "a: 3:b"] {
            check(key, None);
        }
    }
}
