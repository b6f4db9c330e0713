//! What a client may ask by `stats`.

/// The part of the statistics that a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatsTopic {
    /// `stats`: memcached's names, where they mean the same.
    General,
    /// `stats proxy`: every counter of the proxy.
    Proxy,
    /// `stats servers`: the servers as the proxy sees them.
    Servers,
    /// `stats settings`: the configuration in force.
    Settings,
    /// `stats hot`: the keys that are asked for most.
    Hot,
    /// `stats reset`: begin to count anew for `stats`.
    Reset,
}

impl StatsTopic {
    /// The topic that `arguments` name, if there is one. As in memcached the first word decides.
    pub(crate) fn parse(arguments: &[u8]) -> Option<Self> {
        Some(match first_word(arguments).0 {
            b"" => Self::General,
            b"proxy" => Self::Proxy,
            b"servers" => Self::Servers,
            b"settings" => Self::Settings,
            b"hot" => Self::Hot,
            b"reset" => Self::Reset,
            _ => return None,
        })
    }

    /// The answer to arguments that name none, and whether it is an error.
    ///
    /// Numbers about items, slabs and connections belong to one server, and their sum means nothing. The proxy keeps no items, so it says
    /// what a memcached says that holds none: whoever asks for these in passing, as exporters do, reads on.
    pub(crate) fn fixed(arguments: &[u8]) -> (&'static [u8], bool) {
        let (topic, rest) = first_word(arguments);
        match topic {
            b"items" | b"conns" | b"extstore" => (b"END\r\n", false),
            b"slabs" => (b"STAT active_slabs 0\r\nSTAT total_malloced 0\r\nEND\r\n", false),
            b"sizes" => (b"STAT sizes_status disabled\r\nEND\r\n", false),
            b"detail" => match first_word(rest).0 {
                // As with `verbosity`: servers do not get it.
                b"on" | b"off" => (b"OK\r\n", false),
                b"dump" => (b"END\r\n", false),
                _ => (b"CLIENT_ERROR usage: stats detail on|off|dump\r\n", true),
            },
            // Who wants to see keys must not read that there are none.
            b"cachedump" => {
                (b"CLIENT_ERROR these statistics belong to one server, ask it directly\r\n", true)
            }
            _ => (b"ERROR\r\n", true),
        }
    }
}

/// The first word, and what stands behind it.
fn first_word(words: &[u8]) -> (&[u8], &[u8]) {
    let words = words.trim_ascii_start();
    words.split_at(words.iter().position(|&byte| byte == b' ').unwrap_or(words.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_names_the_topic() {
        assert_eq!(StatsTopic::parse(b""), Some(StatsTopic::General));
        assert_eq!(StatsTopic::parse(b"settings items "), Some(StatsTopic::Settings));
        assert_eq!(StatsTopic::parse(b"resetting"), None);
    }

    #[test]
    fn what_is_of_one_server_is_answered_as_by_a_server_without_items() {
        for (arguments, answer) in [
            ("items", "END\r\n"),
            ("slabs", "STAT active_slabs 0\r\nSTAT total_malloced 0\r\nEND\r\n"),
            ("detail  on", "OK\r\n"),
            ("detail dump", "END\r\n"),
        ] {
            assert_eq!(StatsTopic::fixed(arguments.as_bytes()), (answer.as_bytes(), false), "{arguments}");
        }
        for arguments in ["detail", "detail dumped", "cachedump 1 1", "sizes_enable", "dump"] {
            assert!(StatsTopic::fixed(arguments.as_bytes()).1, "{arguments}");
        }
    }
}
