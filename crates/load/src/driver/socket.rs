//! A socket of a connection: a port with or without TLS, or a socket in the file system.
//!
//! The handshake is a part of connecting: a connection is up when it is done. Those of the connections that a run begins with are over
//! before anything is sent, so no response time has one in it.

use std::fs;
use std::io::{self, Read, Write};
use std::net;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::config::Tls;

/// What is spoken to a target.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// A connection that is established, or is being.
#[derive(Debug)]
pub(crate) enum Socket {
    Plain(TcpStream),
    Unix(UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Terms {
    /// What is spoken to `HOST:PORT`: reads the files.
    pub(crate) fn read(tls: &Tls, target: &str) -> Result<Terms, String> {
        let host = target.rsplit_once(':').map_or(target, |(host, _)| host).trim_matches(['[', ']']);
        let name = tls.name().unwrap_or(host);
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| format!("{name:?} is no name that a certificate could have: give --tls-name"))?;
        let mut authorities = RootCertStore::empty();
        for certificate in certificates("--ca", tls.authorities())? {
            let added = authorities.add(certificate);
            added.map_err(|error| format!("--ca {}: {error}", tls.authorities().display()))?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(authorities);
        let config = match tls.shown() {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let private = PrivateKeyDer::from_pem_slice(&read("--key", key)?).map_err(|_| {
                    format!("--key {}: it has no private key without a passphrase", key.display())
                })?;
                let built = builder.with_client_auth_cert(certificates("--cert", chain)?, private);
                built.map_err(|error| format!("--key {}: {error}", key.display()))?
            }
        };
        Ok(Terms { config: Arc::new(config), name })
    }

    fn begin(&self) -> io::Result<ClientConnection> {
        ClientConnection::new(self.config.clone(), self.name.clone()).map_err(io::Error::other)
    }
}

fn read(flag: &str, file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| format!("{flag} {}: {error}", file.display()))
}

fn certificates(flag: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read(flag, file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(format!("{flag} {}: it has no certificate in PEM", file.display())),
    }
}

impl Socket {
    /// Over a connection that is established and blocks: waits for the handshake, each step of which may take `timeout`.
    pub(crate) fn over(
        mut stream: net::TcpStream,
        terms: Option<&Terms>,
        timeout: Duration,
    ) -> io::Result<Socket> {
        stream.set_nodelay(true)?;
        let Some(terms) = terms else {
            stream.set_nonblocking(true)?;
            return Ok(Socket::Plain(TcpStream::from_std(stream)));
        };
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let mut tls = terms.begin()?;
        while tls.is_handshaking() {
            tls.complete_io(&mut stream)?;
        }
        stream.set_nonblocking(true)?;
        Ok(Socket::Tls(Box::new(StreamOwned::new(tls, TcpStream::from_std(stream)))))
    }

    /// Over a connection that is being established and does not block.
    pub(crate) fn connecting(stream: TcpStream, terms: Option<&Terms>) -> io::Result<Socket> {
        Ok(match terms {
            None => Socket::Plain(stream),
            Some(terms) => Socket::Tls(Box::new(StreamOwned::new(terms.begin()?, stream))),
        })
    }

    /// Goes on connecting: whether all of it is done.
    pub(crate) fn connect(&mut self) -> io::Result<bool> {
        let stream = match self {
            // It is connected from the beginning, or was refused then.
            Socket::Unix(stream) => return stream.take_error()?.map_or(Ok(true), Err),
            Socket::Plain(stream) => stream,
            Socket::Tls(tls) => &tls.sock,
        };
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        match stream.peer_addr().and_then(|_| stream.set_nodelay(true)) {
            Ok(()) => self.shake(),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn shake(&mut self) -> io::Result<bool> {
        let Socket::Tls(tls) = self else { return Ok(true) };
        while tls.conn.is_handshaking() {
            match tls.conn.complete_io(&mut tls.sock) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Whether a read that does not fill its room has emptied the socket: a record is handed out in parts.
    pub(crate) fn ends_with_a_short_read(&self) -> bool {
        !matches!(self, Socket::Tls(_))
    }

    /// What the kernel tells of.
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Socket::Plain(stream) => stream,
            Socket::Unix(stream) => stream,
            Socket::Tls(tls) => &mut tls.sock,
        }
    }
}

impl Read for Socket {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Plain(stream) => stream.read(room),
            Socket::Unix(stream) => stream.read(room),
            Socket::Tls(tls) => read_tls(&mut tls.conn, &mut tls.sock, room),
        }
    }
}

/// Reads whatever waits to be written: the kernel says only once that something has come. (rustls' own stream writes first, and reads
/// nothing if that has to wait.)
fn read_tls(tls: &mut ClientConnection, socket: &mut TcpStream, room: &mut [u8]) -> io::Result<usize> {
    loop {
        match tls.reader().read(room) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Many programs end a connection without saying so in TLS.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
            read => return read,
        }
        tls.read_tls(socket)?;
        tls.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let tls = match self {
            Socket::Plain(stream) => return stream.write(bytes),
            Socket::Unix(stream) => return stream.write(bytes),
            Socket::Tls(tls) => tls,
        };
        if tls.conn.wants_write() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = tls.conn.writer().write(bytes)?;
        self.flush()?;
        Ok(taken)
    }

    /// Hands what is encrypted and was not taken yet to the kernel, as far as it takes that.
    fn flush(&mut self) -> io::Result<()> {
        let Socket::Tls(tls) = self else { return Ok(()) };
        while tls.conn.wants_write() {
            match tls.conn.write_tls(&mut tls.sock) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Source for Socket {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.source().register(registry, token, interests)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.source().reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.source().deregister(registry)
    }
}
