//! What stands behind the `?` of a request for a page.
//!
//! Decoded here and not as a form: there a plus sign is a space, which is in no key, and keys in base64 have plus signs. Half a `%XX` is
//! refused, where a form keeps it as it is.

/// The value of the one parameter that a page takes, decoded; `None` if it is not there. Anything else is refused with a reason.
pub(super) fn only(query: Option<&str>, name: &str) -> Result<Option<Vec<u8>>, String> {
    let Some(query) = query.filter(|query| !query.is_empty()) else { return Ok(None) };
    let mut found = None;
    for pair in query.split('&') {
        let (given, value) = pair.split_once('=').unwrap_or((pair, ""));
        if given != name {
            return Err(format!("there is no parameter {given:?} here; there is {name}"));
        }
        if found.is_some() {
            return Err(format!("{name} is given twice"));
        }
        let decoded = decoded(value);
        found = Some(decoded.ok_or_else(|| format!("{name}: after % two hexadecimal digits are needed"))?);
    }
    Ok(found)
}

/// Percent-encoded bytes; a plus sign is a plus sign.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => digit(bytes.next()?)? << 4 | digit(bytes.next()?)?,
            plain => plain,
        });
    }
    Some(decoded)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameter_is_decoded() {
        assert_eq!(only(None, "key"), Ok(None));
        assert_eq!(only(Some(""), "key"), Ok(None));
        assert_eq!(only(Some("key=a%20b%2fc+"), "key"), Ok(Some(b"a b/c+".to_vec())));
        assert_eq!(only(Some("key"), "key"), Ok(Some(Vec::new())));
        assert_eq!(only(Some("key=%FF=x"), "key"), Ok(Some(b"\xff=x".to_vec())));
    }

    #[test]
    fn anything_else_is_refused() {
        for (query, part) in [
            ("kye=a", "there is no parameter \"kye\""),
            ("key=a&x=1", "there is no parameter \"x\""),
            ("key=a&key=b", "given twice"),
            ("key=%2", "hexadecimal"),
            ("key=%zz", "hexadecimal"),
        ] {
            let reason = only(Some(query), "key").expect_err(query);
            assert!(reason.contains(part), "{query}: {reason}");
        }
    }
}
