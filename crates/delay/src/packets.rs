//! A packet socket: all frames that come in through one interface, each with the instant at which the kernel received it.
//!
//! The only file that talks to packet sockets. Its three unsafe blocks hand the kernel structures that neither the standard library nor
//! nix can make: the address of an interface, two options, and the count of what did not fit.

use std::io::IoSliceMut;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, send, setsockopt, socket,
    sockopt,
};
use nix::sys::time::TimeSpec;

use crate::frame::{Frame, KERNEL_HEADER_BYTES};

/// What the kernel may keep for us until we look: some thousand small packets, or 60 of the largest joined ones.
const RECEIVE_BYTES: usize = 8 << 20;
/// The longest frame with joined packets: 64 KiB of IP behind Ethernet's header and the kernel's own.
const FRAME_BYTES_MAX: usize = (64 << 10) + 64 + KERNEL_HEADER_BYTES;
/// Everything that comes in, whatever its protocol; in network order.
const ALL_PROTOCOLS: u16 = (libc::ETH_P_ALL as u16).to_be();

/// A frame, and when the kernel received it, by the system's clock.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) frame: Frame,
    /// `None` where the kernel gave no stamp.
    pub(crate) at: Option<TimeSpec>,
}

/// What reading brought.
#[derive(Debug)]
pub(crate) enum Read {
    Frame(Received),
    /// Too short or too long to be handed on.
    Unusable,
    Empty,
}

/// Memory to read into.
#[derive(Debug)]
pub(crate) struct Scratch {
    bytes: Vec<u8>,
    control: Vec<u8>,
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        Scratch { bytes: vec![0; FRAME_BYTES_MAX], control: nix::cmsg_space!(libc::timespec) }
    }
}

/// One interface.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    socket: OwnedFd,
}

impl PacketSocket {
    /// Opens it; from here on, all that comes in is kept for us.
    pub(crate) fn open(interface: &str) -> nix::Result<PacketSocket> {
        let index = if_nametoindex(interface)?;
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        // Without a protocol nothing comes before the socket is bound to its interface.
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None)?;
        setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BYTES)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        set_option(&socket, libc::PACKET_IGNORE_OUTGOING, 1)?;
        set_option(&socket, libc::PACKET_VNET_HDR, 1)?;
        bind(&socket, index as libc::c_int)?;
        Ok(PacketSocket { socket })
    }

    /// The next frame that came in.
    pub(crate) fn read(&self, scratch: &mut Scratch) -> nix::Result<Read> {
        let mut parts = [IoSliceMut::new(&mut scratch.bytes)];
        let read = recvmsg::<()>(
            self.socket.as_raw_fd(),
            &mut parts,
            Some(&mut scratch.control),
            MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC,
        );
        let message = match read {
            Ok(message) => message,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(Read::Empty),
            Err(error) => return Err(error),
        };
        let at = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::ScmTimestampns(stamp) => Some(stamp),
            _ => None,
        });
        let length = message.bytes;
        let whole = scratch.bytes.get(..length).and_then(Frame::new);
        Ok(whole.map_or(Read::Unusable, |frame| Read::Frame(Received { frame, at })))
    }

    /// Hands a frame to the interface.
    pub(crate) fn write(&self, frame: &Frame) -> nix::Result<()> {
        send(self.socket.as_raw_fd(), frame.bytes(), MsgFlags::MSG_DONTWAIT).map(|_| ())
    }

    /// Frames that the kernel dropped since the last call, because we were too slow to look.
    pub(crate) fn take_missed(&self) -> nix::Result<u64> {
        let mut counts = [0_u32; 2]; // received, and of those dropped: struct tpacket_stats
        let mut length = size_of_val(&counts) as libc::socklen_t;
        // SAFETY: the socket is open, and `counts` is valid for writing `length` bytes.
        let status = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                counts.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        Errno::result(status).map(|_| u64::from(counts[1]))
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn set_option(socket: &OwnedFd, name: libc::c_int, value: libc::c_int) -> nix::Result<()> {
    // SAFETY: the socket is open, and `value` is valid for reading a `c_int`, whose size is given.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    Errno::result(status).map(|_| ())
}

fn bind(socket: &OwnedFd, index: libc::c_int) -> nix::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: ALL_PROTOCOLS,
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the socket is open, and `address` is valid for reading a `sockaddr_ll`, whose size is given.
    let status = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    Errno::result(status).map(|_| ())
}
