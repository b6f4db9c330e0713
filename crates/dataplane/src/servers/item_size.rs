//! The longest value that clients may store: what the servers say that they store.
//!
//! Every server is asked whenever it was connected, before anything of a client is sent (`greeting.rs`). A value that is larger than any server stores is refused before it is read; one
//! that is only larger than its own server stores is that server's to refuse.

/// What the reply to `stats settings` says.
pub(super) fn item_size(reply: &[u8]) -> Option<usize> {
    let value =
        reply.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"STAT item_size_max "))?;
    std::str::from_utf8(value).ok()?.trim_ascii_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_found_among_the_others_or_not() {
        assert_eq!(item_size(b"STAT maxbytes 5\r\nSTAT item_size_max 1048576\r\nEND\r\n"), Some(1_048_576));
        assert_eq!(item_size(b"STAT maxbytes 5\r\nEND\r\n"), None);
        assert_eq!(item_size(b"STAT item_size_max many\r\nEND\r\n"), None);
        assert_eq!(item_size(b"ERROR\r\n"), None);
    }
}
