//! The heads of inputs.

/// What comes before the first `separator`, and what comes after it.
pub(crate) fn split(input: &[u8], separator: u8) -> (&[u8], &[u8]) {
    match input.iter().position(|&byte| byte == separator) {
        Some(at) => (&input[..at], &input[at + 1..]),
        None => (input, &[]),
    }
}

/// Where the pieces end in which `len` bytes arrive. Each byte of `cuts` is the length of a piece, `1` to `9` and so on through
/// ASCII, and they are used again and again; without any, all is cut into single bytes.
pub(crate) fn ends(len: usize, cuts: &[u8]) -> impl Iterator<Item = usize> {
    let cuts = if cuts.is_empty() { b"1" } else { cuts };
    let lengths = cuts.iter().cycle().map(|cut| usize::from(cut.wrapping_sub(b'0')).max(1));
    let mut end = 0;
    lengths.map_while(move |length| {
        let begun = end < len;
        end = len.min(end + length);
        begun.then_some(end)
    })
}
