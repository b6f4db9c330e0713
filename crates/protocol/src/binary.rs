//! The binary protocol, which is not spoken here: enough of it to say so in a way that its clients understand.
//!
//! A binary request begins with 0x80, which begins no command of the text protocol. memcached calls the protocol deprecated.

/// What every binary request begins with.
pub const MAGIC: u8 = 0x80;

/// Length of a binary request's header.
pub const HEADER_BYTES: usize = 24;

/// The answer to the request with this header: status "unknown command" with a text that says why. The header's opcode and
/// opaque are repeated, because clients look at them.
pub fn refusal(header: &[u8; HEADER_BYTES]) -> Vec<u8> {
    const TEXT: &[u8] = b"the binary protocol is not spoken here, use the text protocol";
    const UNKNOWN_COMMAND: [u8; 2] = [0x00, 0x81];
    let mut reply = vec![0; HEADER_BYTES];
    reply[0] = 0x81;
    reply[1] = header[1];
    reply[6..8].copy_from_slice(&UNKNOWN_COMMAND);
    reply[8..12].copy_from_slice(&(TEXT.len() as u32).to_be_bytes());
    reply[12..16].copy_from_slice(&header[12..16]);
    reply.extend_from_slice(TEXT);
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_repeats_what_clients_look_at() {
        // A `get` of the key "ab", with the opaque 01020304.
        let mut header = [0; HEADER_BYTES];
        (header[0], header[3], header[11]) = (MAGIC, 2, 2);
        header[12..16].copy_from_slice(&[1, 2, 3, 4]);
        let reply = refusal(&header);
        assert_eq!(reply[..12], [0x81, 0, 0, 0, 0, 0, 0, 0x81, 0, 0, 0, 61]);
        assert_eq!(reply[12..24], [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(reply.len(), 24 + 61);
    }
}
