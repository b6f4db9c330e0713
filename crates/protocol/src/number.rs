//! Numbers in command lines, accepted exactly where memcached's `strtol` and `strtoul` wrappers accept them. White space and a sign may
//! stand before the digits. White space ends them, and what follows it is ignored.

/// A signed number that fits 64 bits (exptime).
pub(crate) fn signed(word: &[u8]) -> Option<i64> {
    let (negative, magnitude) = sign_and_magnitude(word)?;
    let magnitude = i128::from(magnitude);
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// The low 32 bits of a signed number (length of a value): memcached reads 64 and keeps 32.
pub(crate) fn signed_32(word: &[u8]) -> Option<i32> {
    signed(word).map(|number| number as i32)
}

/// An unsigned number that fits 64 bits (cas, delta, flags). As in memcached, a minus sign is accepted where the C library's
/// wrap-around leaves the top bit clear; where that bit is set, a minus anywhere in the word is refused.
pub(crate) fn unsigned(word: &[u8]) -> Option<u64> {
    let (negative, magnitude) = sign_and_magnitude(word)?;
    let value = if negative { magnitude.wrapping_neg() } else { magnitude };
    (value >> 63 == 0 || !word.contains(&b'-')).then_some(value)
}

/// A cas token in a request: an unsigned number of 64 bits, read as memcached reads it. `None` where memcached would refuse it.
pub fn cas_token(word: &[u8]) -> Option<u64> {
    unsigned(word)
}

/// Plain digits, as servers write them.
pub(crate) fn digits(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 20 {
        return None;
    }
    word.iter().try_fold(0_u64, |sum, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// The digits that come next, behind any spaces, and what follows them: another word, or nothing.
#[inline]
pub(crate) fn next_digits(mut text: &[u8]) -> Option<(u64, &[u8])> {
    while let [b' ', rest @ ..] = text {
        text = rest;
    }
    let mut sum = 0_u64;
    let mut len = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        sum = sum.wrapping_mul(10).wrapping_add(u64::from(digit));
        len += 1;
    }
    let (word, rest) = text.split_at(len);
    let sum = if len > DIGITS_SAFE { digits(word)? } else { sum };
    (len > 0 && rest.first().is_none_or(|&byte| byte == b' ')).then_some((sum, rest))
}

/// The digits at the front of `text`, of which there are 1 to 9, and what follows them.
#[inline(always)]
pub(crate) fn few_digits(text: &[u8]) -> Option<(u32, &[u8])> {
    let mut sum = 0_u32;
    for (len, byte) in text.iter().enumerate().take(FEW_DIGITS + 1) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return (len > 0).then(|| (sum, &text[len..]));
        }
        sum = sum.wrapping_mul(10).wrapping_add(u32::from(digit));
    }
    None
}

/// A number with this many digits fits 32 bits, whatever they are.
const FEW_DIGITS: usize = u32::MAX.ilog10() as usize;

/// A number with this many digits fits 64 bits, whatever they are.
const DIGITS_SAFE: usize = u64::MAX.ilog10() as usize;

fn sign_and_magnitude(word: &[u8]) -> Option<(bool, u64)> {
    let blanks = word.iter().take_while(|&&byte| is_space(byte)).count();
    let word = &word[blanks..];
    let (negative, word) = match word.first()? {
        b'-' => (true, &word[1..]),
        b'+' => (false, &word[1..]),
        _ => (false, word),
    };
    let len = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if word.get(len).is_some_and(|&byte| !is_space(byte)) {
        return None;
    }
    // Leading zeros are legal in any number, so the length alone cannot refuse.
    let zeros = word[..len].iter().take_while(|&&byte| byte == b'0').count();
    let magnitude = if len > 0 && zeros == len { 0 } else { digits(&word[zeros..len])? };
    Some((negative, magnitude))
}

/// `isspace` of the C locale.
fn is_space(byte: u8) -> bool {
    byte == b' ' || (9..=13).contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_the_c_library_reads_them() {
        assert_eq!(signed(b"-1"), Some(-1));
        assert_eq!(signed(b"+007"), Some(7));
        assert_eq!(signed(b"\t3\tx"), Some(3));
        assert_eq!(signed(b"99999999999"), Some(99_999_999_999));
        assert_eq!(signed(b"9223372036854775808"), None);
        for bad in [&b""[..], b"-", b"abc", b"1e", b"1x", b" "] {
            assert_eq!(signed(bad), None, "{bad:?}");
        }
        assert_eq!(signed_32(b"2147483648"), Some(i32::MIN));
        assert_eq!(signed_32(b"4294967299"), Some(3));
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned(b"18446744073709551616"), None);
        assert_eq!(unsigned(b"-1"), None);
        assert_eq!(unsigned(b"18446744073709551615\t-"), None);
        assert_eq!(unsigned(b"9223372036854775807\t-"), Some(i64::MAX as u64));
        assert_eq!(unsigned(b"00000000000000000000000012"), Some(12));
        assert_eq!(digits(b"12"), Some(12));
        assert_eq!(digits(b"+12"), None);
        assert_eq!(few_digits(b"012 3"), Some((12, &b" 3"[..])));
        assert_eq!(few_digits(b"999999999\r"), Some((999_999_999, &b"\r"[..])));
        for bad in [&b""[..], b" ", b"x", b"1", b"1234567890", b"9999999999 "] {
            assert_eq!(few_digits(bad), None, "{bad:?}");
        }
        assert_eq!(next_digits(b" 12 34"), Some((12, &b" 34"[..])));
        assert_eq!(next_digits(b"0"), Some((0, &b""[..])));
        for bad in [&b""[..], b" ", b"x", b"1x", b"-1", b"18446744073709551616"] {
            assert_eq!(next_digits(bad), None, "{bad:?}");
        }
    }
}
