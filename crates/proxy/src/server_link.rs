//! Connections to servers, as one event loop makes them.

use crate::{
    descriptors::{Descriptors, Shortage},
    event_loop::EventLoop,
    keeper::KeeperHandle,
    names::AddressBook,
    sockets::{Ended, Stream},
    tcp_timeouts::TcpTimeouts,
};
use mio::net::{TcpStream, UnixStream};
use std::{io, net::SocketAddr, path::Path, sync::Arc};
use weir_routing::Endpoint;

/// What a loop has of one server's number.
#[derive(Debug, Default)]
pub(crate) struct ServerLink {
    pub(crate) stream: Option<Stream>,
    /// Where `stream` leads, by TCP.
    to: Option<SocketAddr>,
    /// Which of the addresses is tried next.
    next: usize,
    /// How many were tried since the dataplane asked for a connection.
    tried: usize,
    /// A connection was asked for before.
    known: bool,
}

/// Where servers are, and who is asked when that may have changed.
pub(crate) struct Whereabouts {
    pub(crate) book: Arc<AddressBook>,
    pub(crate) keeper: KeeperHandle,
    pub(crate) descriptors: Arc<Descriptors>,
    /// How long the kernel waits for their machines.
    pub(crate) tcp: TcpTimeouts,
}

impl ServerLink {
    /// Begins to connect to the next address that lets itself be begun with; `None` if there is none.
    fn begin(
        &mut self,
        endpoint: &Endpoint,
        addresses: &[SocketAddr],
        mut connect: impl FnMut(&dyn Fn() -> io::Result<Stream>) -> io::Result<Stream>,
    ) -> Option<Stream> {
        if let Endpoint::Unix { path } = endpoint {
            self.to = None;
            if std::mem::replace(&mut self.tried, 1) > 0 {
                return None;
            }
            return connect(&|| UnixStream::connect(Path::new(path)).map(Stream::Unix)).ok();
        }
        while self.tried < addresses.len() {
            let address = addresses[self.next % addresses.len()];
            self.next = (self.next + 1) % addresses.len();
            self.tried += 1;
            if let Ok(stream) = connect(&|| TcpStream::connect(address).map(Stream::Tcp)) {
                self.to = Some(address);
                return Some(stream);
            }
        }
        None
    }
}

impl EventLoop {
    /// The dataplane wants a connection to this server.
    pub(crate) fn connect(&mut self, slot: usize) {
        if slot >= self.servers.len() {
            self.servers.resize_with(slot + 1, ServerLink::default);
        }
        let link = &mut self.servers[slot];
        link.tried = 0;
        if std::mem::replace(&mut link.known, true) {
            // It was lost, or could not be made. The next attempt will know what is found out now.
            self.whereabouts.keeper.look_up(&self.dataplane.server(slot).endpoint);
        }
        self.try_next_address(slot);
    }

    /// The addresses of a name are tried in turn, each at once when the one before has failed.
    fn try_next_address(&mut self, slot: usize) {
        loop {
            let endpoint = &self.dataplane.server(slot).endpoint;
            let addresses = self.whereabouts.book.addresses(endpoint);
            let (mut shortage, descriptors, now) =
                (Shortage::default(), &self.whereabouts.descriptors, self.now);
            let begun = self.servers[slot]
                .begin(endpoint, addresses, |connect| descriptors.connect(&mut shortage, now, connect));
            if shortage != Shortage::default() {
                let counters = self.dataplane.counters_mut();
                counters.server_connects_reserved += shortage.lent;
                counters.server_connects_refused_descriptors += shortage.refused;
            }
            let Some(mut stream) = begun else {
                return self.lose_server(slot, Ended::ByPeer);
            };
            if self.watch_server(slot, &mut stream).is_ok() {
                self.servers[slot].stream = Some(stream);
                return;
            }
        }
    }

    /// A connection that was begun has become ready for something.
    pub(crate) fn finish_connecting(&mut self, slot: usize) {
        let link = &mut self.servers[slot];
        match link.stream.as_ref().map(Stream::connected) {
            Some(Some(true)) => {
                if let Some(stream) = &link.stream {
                    stream.send_at_once();
                    self.whereabouts.tcp.guard_server(stream);
                }
                let now = self.read_clock();
                self.dataplane.handle_server_connected(slot, now);
                self.renew_if_moved(slot);
            }
            Some(Some(false)) => {
                link.stream = None;
                self.try_next_address(slot);
            }
            Some(None) | None => {}
        }
    }

    /// The dataplane wants no connection to this number's server any more; the next may be another server. What the kernel still has
    /// is not sent: it would come behind what goes over the next connection.
    pub(crate) fn disconnect(&mut self, slot: usize) {
        // A server that leaves may never have been needed.
        let Some(link) = self.servers.get_mut(slot) else { return };
        link.stream.take().iter().for_each(Stream::drop_unsent);
        self.whereabouts.descriptors.note_closed();
        link.known = self.dataplane.connected_servers().any(|connected| connected == slot);
    }

    pub(crate) fn lose_server(&mut self, slot: usize, ended: Ended) {
        self.servers[slot].stream = None;
        self.whereabouts.descriptors.note_closed();
        let now = self.read_clock();
        match ended {
            Ended::ByPeer => self.dataplane.handle_server_disconnected(slot, now),
            Ended::Otherwise => self.dataplane.handle_server_broken(slot, now),
        }
    }

    /// Some names have other addresses.
    pub(crate) fn take_addresses(&mut self, book: Arc<AddressBook>) {
        self.whereabouts.book = book;
        for slot in 0..self.servers.len() {
            self.renew_if_moved(slot);
        }
    }

    fn renew_if_moved(&mut self, slot: usize) {
        let addresses = self.whereabouts.book.addresses(&self.dataplane.server(slot).endpoint);
        let moved = self.servers[slot].to.is_some_and(|to| !addresses.is_empty() && !addresses.contains(&to));
        if moved && self.servers[slot].stream.is_some() {
            self.dataplane.handle_server_moved(slot);
        }
    }

    fn watch_server(&self, slot: usize, stream: &mut Stream) -> io::Result<()> {
        self.watch(crate::event_loop::Peer::Server(slot), stream)
    }
}
