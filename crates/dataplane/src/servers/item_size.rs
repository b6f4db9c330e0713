//! The longest value that clients may store: what the servers say that they store.
//!
//! Every server is asked whenever it was connected, before anything of a client is sent (`greeting.rs`). A value that is larger than any server stores is refused before it is read; one
//! that is only larger than its own server stores is that server's to refuse.

use crate::{servers::Servers, servers::backend::Backend, servers::happened::Happened};

impl Servers {
    /// Whether a server that was just connected is asked. One that has closed several connections instead of answering is not: not
    /// everything that speaks memcached's protocol knows the question.
    pub(crate) fn is_asked_item_size(&self, server: usize) -> bool {
        let is_own = self.slots.beside(server).is_none();
        let may_know = self[server].questions().may_know_settings() || !self.config.spares_questions();
        self.config.asks_item_size && is_own && may_know
    }

    /// A server has answered.
    pub(super) fn learn_item_size(&mut self, server: usize, reply: &[u8]) {
        if let Some(bytes) = item_size(reply) {
            self[server].set_item_size(bytes);
        }
        if let Some(largest) = self.all.iter().filter_map(Backend::item_size).max() {
            self.happened.push_back(Happened::ItemSize(largest));
        }
    }
}

/// What `stats settings` says.
fn item_size(reply: &[u8]) -> Option<usize> {
    let value =
        reply.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"STAT item_size_max "))?;
    std::str::from_utf8(value).ok()?.trim_ascii_end().parse().ok()
}
