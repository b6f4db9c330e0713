//! The longest value that clients may store: what the servers say that they store.
//!
//! Every server is asked whenever it was connected. A value that is larger than any server stores is refused before it is read; one
//! that is only larger than its own server stores is that server's to refuse.

use crate::{Dataplane, backend::Purpose};
use weir_protocol::Expected;
use weir_timing::Instant;

impl Dataplane {
    /// Asks a server that was just connected, unless it has ended several connections instead of answering: not everything that
    /// speaks memcached's protocol knows the question. Once is no proof: a server that is ending still has connections made to it.
    pub(crate) fn ask_item_size(&mut self, server: usize, now: Instant) {
        let Self { backends, config, .. } = self;
        let backend = &mut backends[server];
        if !config.asks_item_size || backend.item_size_asked >= ASKED_MAX {
            return;
        }
        backend.begin_own_message(Purpose::Settings, Expected::Settings, config, now);
        backend.message().extend_from_slice(b"stats settings\r\n");
        backend.finish_message();
        backend.item_size_asked += 1;
    }

    /// A server has answered.
    pub(crate) fn learn_item_size(&mut self, server: usize, reply: &[u8]) {
        let Self { backends, config, sessions, .. } = self;
        backends[server].item_size_asked = 0;
        backends[server].item_size = item_size(reply).or(backends[server].item_size);
        let Some(largest) = backends.iter().filter_map(|backend| backend.item_size).max() else { return };
        // A request is kept whole until it is complete, and counts for its client.
        let bytes = largest.min(config.session_buffer_bytes_max);
        if bytes != config.limits.value_bytes_max {
            config.limits.value_bytes_max = bytes;
            sessions.iter_mut().for_each(|(_, session)| session.parser.set_value_bytes_max(bytes));
        }
    }
}

/// A server is not asked any more after so many questions in a row without an answer.
const ASKED_MAX: u8 = 3;

/// What `stats settings` says.
fn item_size(reply: &[u8]) -> Option<usize> {
    let value =
        reply.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"STAT item_size_max "))?;
    std::str::from_utf8(value).ok()?.trim_ascii_end().parse().ok()
}
