//! What stands behind the `?` of a request for a page.
//!
//! Decoded here and not as a form: there a plus sign is a space, which is in no key, and keys in base64 have plus signs. Half a `%XX` is
//! refused, where a form keeps it as it is.

/// The value of the one parameter that a page takes, decoded; `None` if it is not there. Anything else is refused with a reason.
pub(super) fn only(query: Option<&str>, name: &str) -> Result<Option<Vec<u8>>, String> {
    each(query, [name]).map(|[value]| value)
}

/// The same of several parameters, in the order of their names.
pub(super) fn each<const N: usize>(
    query: Option<&str>,
    names: [&str; N],
) -> Result<[Option<Vec<u8>>; N], String> {
    let mut found = [const { None }; N];
    for pair in query.unwrap_or_default().split('&').filter(|_| query.is_some_and(|it| !it.is_empty())) {
        let (given, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some(place) = names.iter().position(|name| *name == given) else {
            return Err(format!("there is no parameter {given:?} here; there is {}", names.join(" and ")));
        };
        if found[place].is_some() {
            return Err(format!("{given} is given twice"));
        }
        let decoded = decoded(value);
        found[place] =
            Some(decoded.ok_or_else(|| format!("{given}: after % two hexadecimal digits are needed"))?);
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
    fn several_parameters_come_in_any_order() {
        let value = |text: &str| Some(text.as_bytes().to_vec());
        for query in ["key=a&pool=b", "pool=b&key=a"] {
            assert_eq!(each(Some(query), ["key", "pool"]), Ok([value("a"), value("b")]), "{query}");
        }
        assert_eq!(each(Some("key=a"), ["key", "pool"]), Ok([value("a"), None]));
        let reason = each(Some("pol=b"), ["key", "pool"]).expect_err("there is no such parameter");
        assert_eq!(reason, "there is no parameter \"pol\" here; there is key and pool");
        assert!(each(Some("pool=a&pool=a"), ["key", "pool"]).is_err_and(|it| it == "pool is given twice"));
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
