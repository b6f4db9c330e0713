//! What the records of an input say.

/// The world: `<servers><replicas><flags>`.
///
/// | flag | meaning |
/// |---|---|
/// | `a` | servers answer by the model at once, not only when the script says so |
/// | `k` | keys are placed by ketama, not by modulo |
/// | `p` | statistics are given only when the script says so |
/// | `s` | every limit is small |
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) servers: usize,
    pub(super) replicas: usize,
    pub(super) answers_at_once: bool,
    pub(super) ketama: bool,
    pub(super) statistics_wait: bool,
    pub(super) small: bool,
}

pub(super) const SERVERS_MAX: usize = 3;
pub(super) const CLIENTS: usize = 3;

/// How long `t0` to `t9` last, in nanoseconds. The timeout is 500 ms; the last is a day.
const PAUSES_NS: [u64; 10] = [
    0,
    1,
    1_000_000,
    49_999_999,
    250_000_000,
    499_999_999,
    500_000_000,
    1_000_000_000,
    10_000_000_000,
    86_400_000_000_000,
];

/// Something that happens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action<'a> {
    /// `>0bytes`: client 0 sends these bytes; it connects if it is not connected.
    Send { client: usize, bytes: &'a [u8] },
    /// `.0`: client 0 will send no more.
    Finish { client: usize },
    /// `x0`: client 0 is gone.
    Vanish { client: usize },
    /// `r0`, `r05`: the kernel takes any number of bytes for client 0 from now on, or 5 and no more.
    ClientTakes { client: usize, bytes: usize },
    /// `<0bytes`: server 0 sends these bytes.
    Say { server: usize, bytes: &'a [u8] },
    /// `=0`, `=05`: server 0 sends all that the model has answered, or 5 bytes of it.
    Answer { server: usize, bytes: usize },
    /// `R0`, `R05`: the kernel takes any number of bytes for server 0 from now on, or 5 and no more.
    ServerTakes { server: usize, bytes: usize },
    /// `d0`: server 0 closes its connection.
    Close { server: usize },
    /// `y0`, `n0`, `s0`: from now on server 0 accepts connections, refuses them, or does neither.
    Door { server: usize, door: Door },
    /// `t6`: time passes.
    Pass { nanos: u64 },
    /// `p`: the statistics that were asked for are given.
    Statistics,
    /// `g`: the proxy is asked to stop.
    Drain,
}

/// What becomes of an attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    Open,
    Closed,
    Silent,
}

impl Setting {
    /// Every text is a world: what cannot be is put right.
    pub(super) fn parse(text: &[u8]) -> Self {
        let number = |at: usize| text.get(at).map_or(0, |byte| usize::from(byte.wrapping_sub(b'1')));
        let servers = number(0) % SERVERS_MAX + 1;
        let flags = text.get(2..).unwrap_or_default();
        Self {
            servers,
            replicas: number(1) % servers.min(2) + 1,
            answers_at_once: flags.contains(&b'a'),
            ketama: flags.contains(&b'k'),
            statistics_wait: flags.contains(&b'p'),
            small: flags.contains(&b's'),
        }
    }
}

impl<'a> Action<'a> {
    /// Nothing if the record has no meaning. Servers that do not exist are sorted out later.
    pub(super) fn parse(record: &'a [u8]) -> Option<Self> {
        let (&kind, rest) = record.split_first()?;
        match kind {
            b'p' => return Some(Self::Statistics),
            b'g' => return Some(Self::Drain),
            _ => {}
        }
        let (digit, rest) = rest.split_first()?;
        let number = usize::from(digit.wrapping_sub(b'0'));
        let (client, server) = (number % CLIENTS, number % SERVERS_MAX);
        Some(match kind {
            b'>' => Self::Send { client, bytes: rest },
            b'.' => Self::Finish { client },
            b'x' => Self::Vanish { client },
            b'r' => Self::ClientTakes { client, bytes: amount(rest) },
            b'<' => Self::Say { server, bytes: rest },
            b'=' => Self::Answer { server, bytes: amount(rest) },
            b'R' => Self::ServerTakes { server, bytes: amount(rest) },
            b'd' => Self::Close { server },
            b'y' => Self::Door { server, door: Door::Open },
            b'n' => Self::Door { server, door: Door::Closed },
            b's' => Self::Door { server, door: Door::Silent },
            b't' => Self::Pass { nanos: *PAUSES_NS.get(number)? },
            _ => return None,
        })
    }
}

/// A number of bytes; any number if none is written.
fn amount(text: &[u8]) -> usize {
    std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(usize::MAX)
}
