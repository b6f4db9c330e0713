//! Connections to servers, as one event loop makes them.
//!
//! ```text
//!   connect ─▶ one address after the other ─▶ begun ─▶ ready for something: check ─▶ connected
//!                   ▲                                         │ refused
//!                   └─────────────────────────────────────────┘        no address is left: lost
//! ```
//!
//! [`ServerLinks`] owns the sockets, by the numbers that the dataplane gave the servers, and knows which address of a name is tried next.
//! It is asked to connect, and to look what became of that; it answers with a value, and the loop tells its dataplane.

use crate::{
    connections::{
        descriptors::{Descriptors, Shortage},
        names::AddressBook,
        sockets::Stream,
        tcp_timeouts::TcpTimeouts,
        tls::{
            Outbounds, Spoken,
            line::Line,
            news::News,
            session::{Session, Shaken},
        },
    },
    reload::handle::ResolverHandle,
};
use mio::net::{TcpStream, UnixStream};
use std::{io, mem, net::SocketAddr, path::Path, sync::Arc};
use weir_dataplane::Slot;
use weir_routing::{Endpoint, Server};
use weir_timing::Instant;

/// Where servers are, and who is asked when that may have changed.
#[derive(Clone)]
pub(crate) struct AddressBookHandle {
    book: Arc<AddressBook>,
    resolver: ResolverHandle,
    descriptors: Arc<Descriptors>,
    /// How long the kernel waits for their machines.
    tcp: TcpTimeouts,
    /// What each of them is spoken to in.
    outbounds: Arc<Outbounds>,
}

impl AddressBookHandle {
    pub(crate) fn new(
        book: Arc<AddressBook>,
        resolver: ResolverHandle,
        descriptors: Arc<Descriptors>,
        tcp: TcpTimeouts,
    ) -> Self {
        Self { book, resolver, descriptors, tcp, outbounds: Arc::default() }
    }

    /// They are spoken to so. Without this none is.
    pub(crate) fn with_outbounds(self, outbounds: Arc<Outbounds>) -> Self {
        Self { outbounds, ..self }
    }

    /// Some names have other addresses.
    pub(crate) fn take_addresses(&mut self, book: Arc<AddressBook>) {
        self.book = book;
    }

    /// Servers are spoken to so, in connections that begin from now on.
    pub(crate) fn take_outbounds(&mut self, outbounds: Arc<Outbounds>) {
        self.outbounds = outbounds;
    }
}

pub(super) struct ServerLinks {
    addresses: AddressBookHandle,
    links: Vec<ServerLink>,
}

/// How what is wrong with a server begins, if no TLS can be spoken with it.
pub(crate) const NO_TLS: &str = "no TLS: ";

/// What a loop has of one server's number.
#[derive(Debug, Default)]
struct ServerLink {
    stream: Option<Stream>,
    /// What is spoken through `stream`, if that is TLS.
    tls: Option<Box<Session>>,
    /// What the server was to be spoken to in when a connection was asked for. One that leaves keeps it.
    spoken: Option<Spoken>,
    /// Where `stream` leads, by TCP.
    to: Option<SocketAddr>,
    /// Which of the addresses is tried next.
    next: usize,
    /// How many were tried since the dataplane asked for a connection.
    tried: usize,
    /// A connection was asked for before.
    known: bool,
    /// Why no TLS could be spoken through the last one, if that was so.
    no_tls: Option<String>,
}

/// What became of a connection that is being made.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It is established.
    Connected,
    /// It is not yet, or there is none.
    Open,
    /// It could not be made.
    Failed,
    /// It was made, and no TLS could be spoken through it, for this reason.
    NoTls(String),
}

impl ServerLinks {
    pub(super) fn new(addresses: AddressBookHandle) -> Self {
        Self { addresses, links: Vec::new() }
    }

    /// The numbers that had a connection.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        (0..self.links.len()).map(Slot::from_index)
    }

    /// The connection to read from and to write to.
    #[inline]
    pub(super) fn line(&mut self, slot: Slot) -> Option<Line<'_>> {
        let link = &mut self.links[slot.index()];
        Some(Line::new(link.stream.as_ref()?, link.tls.as_deref_mut()))
    }

    /// Whether TLS is spoken with this number's server, or is to be.
    #[inline]
    pub(super) fn speaks_tls(&self, slot: Slot) -> bool {
        self.links[slot.index()].tls.is_some()
    }

    /// Whether a connection is being made, and goes on when something comes.
    pub(super) fn is_shaking(&self, slot: Slot) -> bool {
        self.links.get(slot.index()).is_some_and(|link| link.tls.as_ref().is_some_and(|tls| tls.is_shaking()))
    }

    /// Sends what TLS still has of what was written. Returns why the connection is broken, if TLS is to blame.
    pub(super) fn tend(&mut self, slot: Slot) -> Option<String> {
        let link = &mut self.links[slot.index()];
        let (stream, tls) = (link.stream.as_ref()?, link.tls.as_mut()?);
        (tls.tend(stream).news() == Some(News::Broken)).then(|| tls.reason())
    }

    /// Begins to connect to this server; `watch` is given the socket.
    pub(super) fn connect(
        &mut self,
        slot: Slot,
        server: &Server,
        now: Instant,
        watch: impl Fn(&mut Stream) -> io::Result<()>,
    ) -> (Progress, Shortage) {
        let endpoint = &server.endpoint;
        if slot.index() >= self.links.len() {
            self.links.resize_with(slot.index() + 1, ServerLink::default);
        }
        let (link, addresses) = (&mut self.links[slot.index()], self.addresses.book.addresses(endpoint));
        link.tried = 0;
        if let Some(spoken) = self.addresses.outbounds.of(server) {
            link.spoken = Some(spoken.clone());
        }
        let has_moved = link.to.take().is_some_and(|to| !addresses.contains(&to));
        if mem::replace(&mut link.known, true) && !has_moved {
            // It was lost, or could not be made. The next attempt will know what is found out now. Where the name has been found out to have
            // other addresses it is not asked for again: some have others in every answer.
            self.addresses.resolver.look_up(endpoint);
        }
        self.try_next_address(slot, endpoint, now, watch)
    }

    /// The addresses of a name are tried in turn, each at once when the one before has failed.
    pub(super) fn try_next_address(
        &mut self,
        slot: Slot,
        endpoint: &Endpoint,
        now: Instant,
        watch: impl Fn(&mut Stream) -> io::Result<()>,
    ) -> (Progress, Shortage) {
        let AddressBookHandle { book, descriptors, .. } = &self.addresses;
        let (link, addresses, mut shortage) =
            (&mut self.links[slot.index()], book.addresses(endpoint), Shortage::default());
        loop {
            let begun =
                link.begin(endpoint, addresses, |connect| descriptors.connect(&mut shortage, now, connect));
            let Some(mut stream) = begun else { return (Progress::Failed, shortage) };
            if watch(&mut stream).is_ok() {
                link.tls = match &link.spoken {
                    Some(Spoken::Tls(outbound)) => outbound.begin(endpoint),
                    Some(Spoken::Plain) | None => None,
                };
                link.stream = Some(stream);
                return (Progress::Open, shortage);
            }
        }
    }

    /// A connection that was begun has become ready for something.
    pub(super) fn look(&mut self, slot: Slot) -> Progress {
        let link = &mut self.links[slot.index()];
        let Some(stream) = &link.stream else { return Progress::Open };
        match stream.connected() {
            Some(true) => {
                stream.send_at_once();
                self.addresses.tcp.guard_server(stream);
                let shaken = match (&link.spoken, &mut link.tls) {
                    (Some(Spoken::Plain), _) => Shaken::Done,
                    (Some(Spoken::Tls(_)), Some(tls)) => tls.shake(stream),
                    // Both were looked at when the configuration was read. Nothing is sent in clear by mistake.
                    (Some(Spoken::Tls(_)), None) => {
                        Shaken::Failed("it has no name that a certificate could have".to_owned())
                    }
                    (None, _) => Shaken::Failed("it stands in no configuration".to_owned()),
                };
                match shaken {
                    Shaken::Done => {
                        link.no_tls = None;
                        Progress::Connected
                    }
                    Shaken::Open => Progress::Open,
                    Shaken::Failed(reason) => {
                        link.end();
                        Progress::NoTls(reason)
                    }
                }
            }
            Some(false) => {
                link.end();
                Progress::Failed
            }
            None => Progress::Open,
        }
    }

    /// No TLS could be spoken through the connection to this number's server.
    pub(super) fn note_no_tls(&mut self, slot: Slot, reason: &str) {
        self.links[slot.index()].no_tls = Some(format!("{NO_TLS}{reason}"));
    }

    /// The numbers of servers with which no TLS can be spoken, with the reasons.
    pub(super) fn without_tls(&self) -> impl Iterator<Item = (Slot, &str)> {
        let reasons = self.links.iter().enumerate();
        reasons.filter_map(|(index, link)| Some((Slot::from_index(index), link.no_tls.as_deref()?)))
    }

    /// There is no connection to this number's server any more.
    pub(super) fn lose(&mut self, slot: Slot) {
        self.links[slot.index()].end();
        self.addresses.descriptors.note_closed();
    }

    /// The connection to this number's server is wanted no more; the next may be another server's, unless the number `is_kept`. What the
    /// kernel still has is not sent: it would come behind what goes over the next connection.
    pub(super) fn disconnect(&mut self, slot: Slot, is_kept: bool) {
        // A server that leaves may never have been needed.
        let Some(link) = self.links.get_mut(slot.index()) else { return };
        link.stream.take().iter().for_each(Stream::drop_unsent);
        link.tls = None;
        self.addresses.descriptors.note_closed();
        link.known = is_kept;
        if !is_kept {
            link.spoken = None;
        }
    }

    /// Servers are spoken to so, in connections that begin from now on.
    pub(super) fn take_outbounds(&mut self, outbounds: Arc<Outbounds>) {
        self.addresses.take_outbounds(outbounds);
    }

    /// Some names have other addresses.
    pub(super) fn take_addresses(&mut self, book: Arc<AddressBook>) {
        self.addresses.take_addresses(book);
    }

    /// Whether the connection to this server leads where it is not any more, or the server is spoken to otherwise now.
    pub(super) fn has_moved(&self, slot: Slot, server: &Server) -> bool {
        let AddressBookHandle { book, outbounds, .. } = &self.addresses;
        let (link, addresses) = (&self.links[slot.index()], book.addresses(&server.endpoint));
        let moved = link.to.is_some_and(|to| !addresses.is_empty() && !addresses.contains(&to));
        let (was, is) = (link.spoken.as_ref(), outbounds.of(server));
        let changed = was.zip(is).is_some_and(|(was, is)| !was.is_said_as(is));
        (moved || changed) && link.stream.is_some()
    }
}

impl ServerLink {
    /// There is no connection any more.
    fn end(&mut self) {
        self.stream = None;
        self.tls = None;
    }

    /// Begins to connect to the next address that lets itself be begun with; `None` if there is none.
    fn begin(
        &mut self,
        endpoint: &Endpoint,
        addresses: &[SocketAddr],
        mut connect: impl FnMut(&dyn Fn() -> io::Result<Stream>) -> io::Result<Stream>,
    ) -> Option<Stream> {
        if let Endpoint::Unix { path } = endpoint {
            self.to = None;
            if mem::replace(&mut self.tried, 1) > 0 {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// The ports that are tried before one of these, which can be begun with, until there is none.
    fn check(link: &mut ServerLink, ports: &[u16], may_begin: &[bool]) -> (Vec<usize>, bool) {
        let addresses: Vec<_> = ports.iter().copied().map(address).collect();
        let endpoint = Endpoint::Tcp { host: "a.test".into(), port: 1 };
        let (mut tried, mut answers) = (Vec::new(), may_begin.iter());
        let begun = link.begin(&endpoint, &addresses, |_| {
            tried.push(tried.len());
            let listener = std::net::TcpListener::bind(address(0))?;
            match answers.next() {
                Some(true) => TcpStream::connect(listener.local_addr()?).map(Stream::Tcp),
                _ => Err(io::Error::other("refused at once")),
            }
        });
        (tried, begun.is_some())
    }

    #[test]
    fn each_address_is_tried_once_and_the_next_attempt_begins_behind_the_last() {
        let mut link = ServerLink::default();
        assert_eq!(check(&mut link, &[1, 2, 3], &[false, true]), (vec![0, 1], true));
        assert_eq!((link.to, link.next, link.tried), (Some(address(2)), 2, 2));
        assert_eq!(check(&mut link, &[1, 2, 3], &[false]), (vec![0], false), "one is left");
        link.tried = 0;
        assert_eq!(check(&mut link, &[1, 2, 3], &[true]), (vec![0], true));
        assert_eq!(link.to, Some(address(1)));
    }

    #[test]
    fn a_name_without_an_address_cannot_be_begun_with() {
        assert_eq!(check(&mut ServerLink::default(), &[], &[true]), (vec![], false));
    }
}
