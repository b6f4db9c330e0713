//! What one client sends on one connection.

/// The bytes of one client, and the places at which they are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// What is sent, in turn. A phase begins when the one before is answered, and may use the cas tokens of its answers.
    pub phases: Vec<Phase>,
}

/// Bytes that are sent without waiting for an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// The bytes. [`Stream::CAS`] followed by a digit stands for a cas token that was seen in the phases before.
    pub bytes: Vec<u8>,
    /// Where the bytes are cut, in ascending order.
    pub cuts: Vec<usize>,
}

impl Stream {
    /// Stands, with a digit behind it, for the cas token that this subject gave at that place of its answers. No client of memcached
    /// sends this word.
    pub const CAS: &'static [u8] = b"<cas>";

    /// A stream of one phase that is not cut.
    pub fn whole(bytes: &[u8]) -> Self {
        Self { phases: vec![Phase { bytes: bytes.to_vec(), cuts: Vec::new() }] }
    }

    /// The largest number that may be the length of a data block.
    pub fn longest_block(&self) -> usize {
        self.phases.iter().flat_map(|phase| claimed_lengths(&phase.bytes)).max().unwrap_or(0)
    }

    /// What must be sent behind the stream to leave whatever data block it left open: blank lines, shorter than any line that
    /// memcached finds too long.
    pub fn filler(&self) -> Vec<u8> {
        const LINE: &[u8] = &{
            let mut line = [b' '; 1000];
            line[998] = b'\r';
            line[999] = b'\n';
            line
        };
        LINE.repeat(1 + self.longest_block() / LINE.len())
    }
}

impl Phase {
    /// The pieces in which `bytes`, which is the phase with its tokens filled in, is sent.
    pub fn pieces<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let ends = self.cuts.iter().copied().filter(|&cut| cut < bytes.len()).chain([bytes.len()]);
        let mut start = 0;
        ends.map(move |end| {
            let piece = &bytes[start..end];
            start = end;
            piece
        })
    }

    /// The bytes with `tokens` in the places that stand for them; `0` where there is no such token.
    pub fn fill_in(&self, tokens: &[u64]) -> Vec<u8> {
        let mut filled = Vec::with_capacity(self.bytes.len());
        let mut rest = &self.bytes[..];
        while let Some((before, digit, after)) = split_at_placeholder(rest) {
            filled.extend_from_slice(before);
            let token = tokens.get(usize::from(digit - b'0')).copied().unwrap_or(0);
            filled.extend_from_slice(token.to_string().as_bytes());
            rest = after;
        }
        filled.extend_from_slice(rest);
        filled
    }
}

fn split_at_placeholder(bytes: &[u8]) -> Option<(&[u8], u8, &[u8])> {
    let len = Stream::CAS.len();
    let at = bytes
        .windows(len + 1)
        .position(|window| window.starts_with(Stream::CAS) && window[len].is_ascii_digit())?;
    Some((&bytes[..at], bytes[at + len], &bytes[at + len + 1..]))
}

/// Numbers that stand where a command line has the length of its data block, if they are not beyond all that is ever sent.
fn claimed_lengths(bytes: &[u8]) -> impl Iterator<Item = usize> {
    bytes.split(|&byte| byte == b'\n').filter_map(|line| {
        let mut words = line.split(|&byte| byte == b' ' || byte == b'\r').filter(|word| !word.is_empty());
        let place = if words.next()? == b"ms" { 1 } else { 3 };
        let word = std::str::from_utf8(words.nth(place)?).ok()?;
        word.trim_start_matches('+').parse().ok().filter(|&length| length <= LONGEST_BLOCK_MAX)
    })
}

/// Blocks beyond this are left open at the end of a stream.
const LONGEST_BLOCK_MAX: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_bytes() {
        let phase = Phase { bytes: b"get a\r\n".to_vec(), cuts: vec![1, 6, 99] };
        let pieces: Vec<_> = phase.pieces(&phase.bytes).collect();
        assert_eq!(pieces, [&b"g"[..], b"et a\r", b"\n"]);
    }

    #[test]
    fn tokens_are_filled_in() {
        let phase = Phase { bytes: b"cas a 0 0 1 <cas>1\r\nx<cas>\r\n<cas>7".to_vec(), cuts: Vec::new() };
        assert_eq!(phase.fill_in(&[5, 66]), b"cas a 0 0 1 66\r\nx<cas>\r\n0");
    }

    #[test]
    fn the_longest_block_is_seen() {
        assert_eq!(Stream::whole(b"set a 0 0 7\r\nms b 12 c\r\nset a 0 0 99999999\r\n").longest_block(), 12);
        assert_eq!(Stream::whole(b"get a\r\n").longest_block(), 0);
        assert!(Stream::whole(b"set a 0 0 1998\r\n").filler().len() >= 2000);
    }
}
