//! What the switch must know of a frame: its addresses, and its length on the wire.
//!
//! The kernel hands over a frame behind a header of its own (`virtio_net_hdr`), in which several packets of a TCP connection may come as
//! one. They stay one here, which costs a tenth of the CPU time, and are counted as the packets that a wire would carry.

/// Bytes of the kernel's header before the frame: flags, kind of joining, length of headers, length of a segment, where a checksum
/// starts, where it goes.
pub(crate) const KERNEL_HEADER_BYTES: usize = 10;
const ETHERNET_BYTES: usize = 14;

/// An Ethernet address.
pub(crate) type Address = [u8; 6];

/// Kernel header and frame, as received and as handed on.
#[derive(Debug, Clone)]
pub(crate) struct Frame(Box<[u8]>);

/// What a frame is on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OnWire {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Frame {
    /// A copy of what was received; `None` if it is too short to be a frame.
    pub(crate) fn new(received: &[u8]) -> Option<Frame> {
        (received.len() >= KERNEL_HEADER_BYTES + ETHERNET_BYTES).then(|| Frame(received.into()))
    }

    /// As the kernel takes it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn to(&self) -> Address {
        self.address(0)
    }

    pub(crate) fn from(&self) -> Address {
        self.address(6)
    }

    /// Packets and bytes with all headers from Ethernet's on.
    pub(crate) fn on_wire(&self) -> OnWire {
        let bytes = self.ethernet().len() as u64;
        let Some((headers, segment)) = self.joined() else { return OnWire { packets: 1, bytes } };
        let packets = bytes.saturating_sub(headers).div_ceil(segment).max(1);
        OnWire { packets, bytes: bytes + (packets - 1) * headers }
    }

    /// Bytes of all headers and payload of each segment, where several packets came as one.
    fn joined(&self) -> Option<(u64, u64)> {
        let (joined, segment) = (self.0[1] != 0, self.number(4));
        if !joined || segment == 0 {
            return None;
        }
        // The checksum starts where TCP's header does; its thirteenth byte holds its length in words.
        let tcp = usize::from(self.number(6));
        let words = self.ethernet().get(tcp + 12)? >> 4;
        Some((tcp as u64 + 4 * u64::from(words), u64::from(segment)))
    }

    fn number(&self, at: usize) -> u16 {
        u16::from_ne_bytes([self.0[at], self.0[at + 1]])
    }

    fn ethernet(&self) -> &[u8] {
        &self.0[KERNEL_HEADER_BYTES..]
    }

    fn address(&self, at: usize) -> Address {
        self.ethernet()[at..at + 6].try_into().expect("a frame has both addresses: `new` has seen to it")
    }
}

/// A frame for tests, and the frame that several packets came as.
#[cfg(test)]
pub(crate) fn example(to: u8, from: u8, bytes: usize) -> Frame {
    let mut raw = vec![0; KERNEL_HEADER_BYTES + bytes];
    raw[KERNEL_HEADER_BYTES..KERNEL_HEADER_BYTES + 6].fill(to);
    raw[KERNEL_HEADER_BYTES + 6..KERNEL_HEADER_BYTES + 12].fill(from);
    Frame::new(&raw).expect("long enough")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_knows_its_ends() {
        let frame = example(7, 9, 60);
        assert_eq!((frame.to(), frame.from()), ([7; 6], [9; 6]));
        assert_eq!(frame.on_wire(), OnWire { packets: 1, bytes: 60 });
        assert!(Frame::new(&[0; KERNEL_HEADER_BYTES + ETHERNET_BYTES - 1]).is_none());
    }

    #[test]
    fn packets_that_came_as_one_are_counted_as_on_a_wire() {
        // 14 + 20 + 32 bytes of headers, and 4,096 bytes in segments of 1,448: three packets.
        let mut raw = vec![0; KERNEL_HEADER_BYTES + 66 + 4_096];
        raw[1] = 1;
        raw[4..6].copy_from_slice(&1_448_u16.to_ne_bytes());
        raw[6..8].copy_from_slice(&34_u16.to_ne_bytes());
        raw[KERNEL_HEADER_BYTES + 34 + 12] = 8 << 4;
        let joined = Frame::new(&raw).expect("long enough");
        assert_eq!(joined.on_wire(), OnWire { packets: 3, bytes: 3 * 66 + 4_096 });
        // Headers that lie outside of the frame are not looked for.
        raw.truncate(KERNEL_HEADER_BYTES + 40);
        let cut = Frame::new(&raw).expect("long enough");
        assert_eq!(cut.on_wire(), OnWire { packets: 1, bytes: 40 });
    }
}
