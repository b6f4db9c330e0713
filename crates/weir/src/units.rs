//! Units on the command line.

pub(crate) use weir_load::units::{duration, unix_time};

/// `4096`, `64k`, `1m`, `1g`, with or without `b` or `ib` behind the letter: powers of 1024, as memcached's own options.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(format!("the unit {unit:?} is none of k, m, g")),
    };
    let number: usize =
        number.parse().map_err(|_| "a size is a number, and perhaps a unit, such as 64k or 1m".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "that is more than can be counted".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("64k"), Ok(64 << 10));
        assert_eq!(bytes("1 MiB"), Ok(1 << 20));
        assert_eq!(bytes("2G"), Ok(2 << 30));
        for bad in ["", "m", "1.5m", "-1", "1t", "99999999999g", "99999999999999999999"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }
}
