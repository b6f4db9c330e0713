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
    /// `stats reset`: begin to count anew for `stats`.
    Reset,
}

impl StatsTopic {
    /// The topic that `arguments` name, if there is one.
    pub(crate) fn parse(arguments: &[u8]) -> Option<Self> {
        Some(match arguments.trim_ascii_end() {
            b"" => Self::General,
            b"proxy" => Self::Proxy,
            b"servers" => Self::Servers,
            b"settings" => Self::Settings,
            b"reset" => Self::Reset,
            _ => return None,
        })
    }

    /// The answer to arguments that name none. Slabs and items belong to one server; their numbers have no sum that means anything.
    pub(crate) fn refusal(arguments: &[u8]) -> &'static [u8] {
        match arguments.split(|&byte| byte == b' ').next() {
            Some(
                b"items" | b"slabs" | b"sizes" | b"conns" | b"cachedump" | b"detail" | b"dump" | b"extstore",
            ) => b"CLIENT_ERROR these statistics belong to one server, ask it directly\r\n",
            _ => b"ERROR\r\n",
        }
    }
}
