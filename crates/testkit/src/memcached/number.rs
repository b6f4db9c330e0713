//! Numbers as the C library and memcached's wrappers around it read them.

/// `safe_strtoull`: 64 bits; where the number would look negative, a minus sign anywhere in the text refuses it.
pub(super) fn unsigned(text: &[u8]) -> Option<u64> {
    let (negative, magnitude) = strtol(text)?;
    let magnitude = u64::try_from(magnitude).ok()?;
    let value = if negative { magnitude.wrapping_neg() } else { magnitude };
    ((value as i64) >= 0 || !text.contains(&b'-')).then_some(value)
}

/// A length: 32 bits.
pub(super) fn length(text: &[u8]) -> Option<i32> {
    i32::try_from(signed(text)?).ok()
}

/// An exptime: 64 bits are accepted, and the lower 32 are used.
pub(super) fn exptime(text: &[u8]) -> Option<i32> {
    signed(text).map(|exptime| exptime as i32)
}

/// Flags: 64 bits are accepted, and the lower 32 are used.
pub(super) fn flags(text: &[u8]) -> Option<u32> {
    unsigned(text).map(|flags| flags as u32)
}

fn signed(text: &[u8]) -> Option<i64> {
    let (negative, magnitude) = strtol(text)?;
    let magnitude = i128::try_from(magnitude).ok()?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// Sign and magnitude of a number that may stand after white space and must end the text or stand before white space.
/// The magnitude saturates far beyond 64 bits.
fn strtol(text: &[u8]) -> Option<(bool, u128)> {
    let mut rest = text;
    while let [first, tail @ ..] = rest
        && is_space(*first)
    {
        rest = tail;
    }
    let negative = rest.first() == Some(&b'-');
    if let [b'+' | b'-', tail @ ..] = rest {
        rest = tail;
    }
    let mut magnitude = None;
    while let [first @ b'0'..=b'9', tail @ ..] = rest {
        let digit = u128::from(first - b'0');
        magnitude = Some((magnitude.unwrap_or(0u128) * 10 + digit).min(1 << 100));
        rest = tail;
    }
    let ends = rest.first().is_none_or(|next| is_space(*next));
    magnitude.filter(|_| ends).map(|magnitude| (negative, magnitude))
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}
