//! What all connections of a run share: keys, values, and the bytes of requests.

use weir_protocol::Expected;
use weir_timing::Operation;

use crate::config::Config;
use crate::keyspace::Keyspace;
use crate::value::Values;
use crate::versions::Versions;

/// Keys, values and versions of a run.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) keyspace: Keyspace,
    pub(crate) values: Values,
    pub(crate) versions: Versions,
    /// What stands between the key and the data of a `set`.
    set_header: Vec<u8>,
}

impl Workload {
    /// `run` should differ between runs; see [`Versions::new`].
    pub(crate) fn new(config: &Config, run: u64) -> Workload {
        Workload {
            keyspace: Keyspace::new(config.keys, config.key_size),
            values: Values::new(config.value_size),
            versions: Versions::new(config.keys, run),
            set_header: format!(" {FLAGS} 0 {}\r\n", config.value_size).into_bytes(),
        }
    }

    /// Appends the request for `operation` on `keys`: one key, or for a multi-get several.
    pub(crate) fn append_request(&self, operation: Operation, keys: &[u64], output: &mut Vec<u8>) {
        if operation == Operation::Set {
            let key = keys[0];
            output.extend_from_slice(b"set ");
            self.keyspace.append(key, output);
            output.extend_from_slice(&self.set_header);
            self.values.append(key, self.versions.issue(key), output);
        } else {
            output.extend_from_slice(b"get");
            for &key in keys {
                output.push(b' ');
                self.keyspace.append(key, output);
            }
        }
        output.extend_from_slice(b"\r\n");
    }
}

/// The replies that fit an operation.
pub(crate) fn expected(operation: Operation) -> Expected {
    if operation == Operation::Set { Expected::Storage } else { Expected::Retrieval }
}

/// Every value's flags. Not zero, so that flags that get lost are noticed.
pub(crate) const FLAGS: u32 = 0x5eed;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    #[test]
    fn requests_are_memcached_text() {
        let config = Config::check(Settings { value_size: 8, key_size: 5, ..Settings::example() })
            .expect("the settings are valid");
        let workload = Workload::new(&config, 1);
        let mut bytes = Vec::new();
        workload.append_request(Operation::Get, &[7], &mut bytes);
        workload.append_request(Operation::MultiGet, &[1, 20], &mut bytes);
        workload.append_request(Operation::Set, &[3], &mut bytes);
        let expected = b"get 00007\r\nget 00001 00020\r\nset 00003 24301 0 8\r\n";
        assert_eq!(&bytes[..expected.len()], expected);
        assert_eq!(workload.values.verify(3, &bytes[expected.len()..][..8]), Ok(None));
        assert_eq!(&bytes[expected.len() + 8..], b"\r\n");
    }

    #[test]
    fn no_request_is_longer_than_the_config_says() {
        for (multiget, value_size) in [(1, 1000), (50, 10)] {
            let config = Config::check(Settings { multiget, value_size, ..Settings::example() })
                .expect("the settings are valid");
            let workload = Workload::new(&config, 1);
            let keys: Vec<u64> = (0..multiget as u64).collect();
            for operation in [Operation::Set, Operation::MultiGet] {
                let mut bytes = Vec::new();
                workload.append_request(operation, &keys, &mut bytes);
                assert!(bytes.len() <= config.request_bytes_max());
            }
        }
    }
}
