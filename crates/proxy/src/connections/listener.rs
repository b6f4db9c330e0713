//! Where clients connect: a TCP port, or a socket in the file system.

use crate::{
    config::listeners::Listen,
    connections::{inherited::Port, sockets::Stream, tcp_timeouts::TcpTimeouts},
};
use mio::{
    Interest, Registry, Token,
    net::{TcpListener, UnixListener},
};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::{
    fs,
    io::{self, ErrorKind},
    net::SocketAddr,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix {
        listener: UnixListener,
        /// Removed when the listener is dropped; `None` if that is the service manager's.
        _file: Option<SocketFile>,
    },
}

/// A socket's file, which is removed with its listener.
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Whose file it is that stands there: another process may have put its own in the place.
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|file| file.ino() == self.inode) {
            // A file that is left is taken for what it is by whoever listens there next.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Listener {
    /// `backlog` connections may wait in the kernel to be accepted.
    pub(crate) fn bind(listen: &Listen, backlog: u32) -> io::Result<Self> {
        match listen {
            Listen::Tcp(address) => tcp(*address, backlog).map(Self::Tcp),
            Listen::Unix { path, mode } => unix(path, *mode, backlog),
        }
    }

    /// One that the service manager has bound. How many connections may wait in the kernel, and a socket's mode, are as it has set them.
    pub(crate) fn of(port: Port) -> Self {
        match port {
            Port::Tcp(listener) => Self::Tcp(TcpListener::from_std(listener)),
            Port::Unix(listener) => Self::Unix { listener: UnixListener::from_std(listener), _file: None },
        }
    }

    /// Its port, as the kernel chose it if it was to; a socket in the file system has none.
    pub(crate) fn address(&self) -> io::Result<Option<SocketAddr>> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Some),
            Self::Unix { .. } => Ok(None),
        }
    }

    /// For every connection that will be accepted.
    pub(crate) fn keep_alive(&self, tcp: TcpTimeouts) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => tcp.guard_clients(listener),
            Self::Unix { .. } => Ok(()),
        }
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
            Self::Unix { listener, .. } => registry.register(listener, token, Interest::READABLE),
        }
    }

    pub(crate) fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
            Self::Unix { listener, .. } => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
        }
    }
}

fn tcp(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog.cast_signed())?;
    Ok(TcpListener::from_std(socket.into()))
}

fn unix(path: &Path, mode: u32, backlog: u32) -> io::Result<Listener> {
    remove_if_stale(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    let file = SocketFile { path: path.to_owned(), inode: fs::symlink_metadata(path)?.ino() };
    // Nobody can connect before it listens, so nobody slips in before the mode is set.
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    socket.listen(backlog.cast_signed())?;
    Ok(Listener::Unix { listener: UnixListener::from_std(socket.into()), _file: Some(file) })
}

/// Removes the socket of a process that has ended without removing it. One that is listened on is left, and so is any other file.
fn remove_if_stale(path: &Path) -> io::Result<()> {
    let file = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    if !file.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "another kind of file has this name"));
    }
    // A process that accepts nobody has a full queue, in which a blocking connect would wait for ever.
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    let in_use = || io::Error::new(ErrorKind::AddrInUse, "another process listens there");
    match socket.connect(&SockAddr::unix(path)?) {
        Ok(()) => Err(in_use()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(in_use()),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(name: &str) -> (PathBuf, Listen) {
        let path = std::env::temp_dir().join(format!("weir-{}-{name}.sock", std::process::id()));
        let _ = fs::remove_file(&path);
        (path.clone(), Listen::Unix { path, mode: 0o600 })
    }

    #[test]
    fn a_socket_has_its_mode_and_goes_with_its_listener() {
        let (path, listen) = listen("mode");
        let listener = Listener::bind(&listen, 8).expect("it can be made");
        assert_eq!(fs::metadata(&path).expect("it is there").mode() & 0o777, 0o600);
        let taken = Listener::bind(&listen, 8).map(|_| ()).expect_err("it is listened on");
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
        drop(listener);
        assert!(!path.exists());
    }

    /// A start beside a frozen proxy waited in its queue, and said nothing.
    #[test]
    fn a_socket_whose_process_accepts_nobody_is_in_use() {
        let (path, listen) = listen("frozen");
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).expect("descriptors are free");
        socket.bind(&SockAddr::unix(&path).expect("a path")).expect("it is free");
        socket.listen(0).expect("it is bound");
        let mut waiting = Vec::new();
        loop {
            let client = Socket::new(Domain::UNIX, Type::STREAM, None).expect("descriptors are free");
            client.set_nonblocking(true).expect("a socket");
            match client.connect(&SockAddr::unix(&path).expect("a path")) {
                Ok(()) => waiting.push(client),
                Err(full) => {
                    assert_eq!(full.kind(), ErrorKind::WouldBlock);
                    break;
                }
            }
        }
        assert!(!waiting.is_empty());
        let refused = Listener::bind(&listen, 8).map(|_| ()).expect_err("it is listened on");
        assert_eq!(refused.kind(), ErrorKind::AddrInUse);
        assert!(path.exists(), "it is another's");
        fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn a_stale_socket_is_replaced_and_another_file_is_left() {
        let (path, listen) = listen("stale");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("it can be made"));
        assert!(path.exists(), "the standard library leaves the file");
        drop(Listener::bind(&listen, 8).expect("it is stale"));
        fs::write(&path, "text").expect("it can be written");
        let refused = Listener::bind(&listen, 8).map(|_| ()).expect_err("it is no socket");
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).expect("it is there"), b"text");
        fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn a_file_that_another_process_put_in_the_place_is_left() {
        let (path, listen) = listen("moved");
        let listener = Listener::bind(&listen, 8).expect("it can be made");
        let aside = path.with_extension("aside");
        fs::rename(&path, &aside).expect("it is there");
        fs::write(&path, "text").expect("it can be written");
        drop(listener);
        assert_eq!(fs::read(&path).expect("it is left"), b"text");
        fs::remove_file(&path).and(fs::remove_file(&aside)).expect("both are there");
    }
}
