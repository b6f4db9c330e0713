//! mcrouter's JSON as plain JSON: it allows comments, and commas behind the last entry.

/// The same text with blanks in place of comments and of commas that nothing follows, so that what a reader says of lines
/// and columns stays true.
pub(super) fn plain(text: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    // Where the last comma stands, as long as nothing but blanks followed it.
    let mut comma = None;
    while let Some(next) = rest.chars().next() {
        let (length, blank) = match next {
            '"' => (string(rest), false),
            '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), true),
            '/' if rest.starts_with("/*") => {
                let end = rest[2..].find("*/");
                let line = text[..text.len() - rest.len()].matches('\n').count() + 1;
                (end.ok_or_else(|| format!("the comment that begins in line {line} does not end"))? + 4, true)
            }
            _ => (next.len_utf8(), false),
        };
        let (piece, after) = rest.split_at(length);
        rest = after;
        if blank {
            plain.extend(piece.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            continue;
        }
        match next {
            '}' | ']' => {
                if let Some(place) = comma.take() {
                    plain.replace_range(place..=place, " ");
                }
            }
            ',' => comma = Some(plain.len()),
            _ if next.is_ascii_whitespace() => {}
            _ => comma = None,
        }
        plain.push_str(piece);
    }
    Ok(plain)
}

/// How many bytes of `text` its first string has, with both quotes; all of them if it does not end.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (place, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return place + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_last_commas_become_blanks() {
        let check = |text: &str, expected: &str| {
            assert_eq!(plain(text).unwrap(), expected);
        };
        check("{} // end", "{}       ");
        check("// é\n{}", "    \n{}");
        check("[1, /* two,\n three */ 3]", "[1,        \n          3]");
        check("[1, 2,]", "[1, 2 ]");
        check("{\"a\": [1,], // last,\n}", "{\"a\": [1 ]          \n}");
        check("[1, /* last */ ]", "[1             ]");
        check("/*/ */1", "      1");
        check("[,]", "[ ]");
        check("[1,,]", "[1, ]");
    }

    #[test]
    fn text_in_quotes_stays() {
        for text in [
            r#"["a//b", "/*", "*/", "c,"]"#,
            r#"["\"//", "\\", ",]"]"#,
            r#"{"a,}": "b"}"#,
            r#"["no end, // ]"#,
        ] {
            assert_eq!(plain(text).unwrap(), text);
        }
    }

    #[test]
    fn a_comment_without_end_is_refused_with_its_line() {
        assert_eq!(plain("{\n}\n /* x"), Err("the comment that begins in line 3 does not end".into()));
        assert_eq!(plain("/*/"), Err("the comment that begins in line 1 does not end".into()));
        assert_eq!(plain("/"), Ok("/".into()));
    }
}
