//! Replies: vectors, violations, and any cut of the bytes.

use proptest::prelude::*;
use weir_protocol::{Expected, ReplyScanner, Status, Violation, Whose};

fn scan(expected: Expected, bytes: &[u8]) -> Result<Option<(Status, usize)>, Violation> {
    let found = ReplyScanner::default().scan(expected, bytes)?;
    Ok(found.map(|reply| (reply.status, reply.len)))
}

#[test]
fn lines_are_recognised_where_they_fit() {
    let good: &[(Expected, &[u8], Status)] = &[
        (Expected::Storage, b"STORED\r\n", Status::Stored),
        (Expected::Storage, b"NOT_STORED\r\n", Status::NotStored),
        (Expected::Storage, b"EXISTS\r\n", Status::Exists),
        (Expected::Storage, b"NOT_FOUND\r\n", Status::NotFound),
        (Expected::Storage, b"SERVER_ERROR out of memory storing object\r\n", Status::ServerError),
        (Expected::Deletion, b"DELETED\r\n", Status::Deleted),
        (Expected::Arithmetic, b"42\r\n", Status::Number),
        (Expected::Arithmetic, b"9 \r\n", Status::Number),
        (
            Expected::Arithmetic,
            b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
            Status::ClientError,
        ),
        (Expected::Touch, b"TOUCHED\r\n", Status::Touched),
        (Expected::Version, b"VERSION 1.6.18\r\n", Status::Version),
        (Expected::Retrieval, b"END\r\n", Status::End),
        (Expected::Retrieval, b"VALUE a  0 1 \r\nx\r\nVALUE b 0  1  2 \r\nx\r\nEND\r\n", Status::End),
        (Expected::Settings, b"STAT maxbytes 67108864\r\nSTAT inter NULL\r\nEND\r\n", Status::End),
        (Expected::Settings, b"ERROR\r\n", Status::Error),
        (Expected::Retrieval, b"ERROR\r\n", Status::Error),
    ];
    for (expected, bytes, status) in good {
        assert_eq!(scan(*expected, bytes), Ok(Some((*status, bytes.len()))));
    }
    let bad: &[(Expected, &[u8])] = &[
        (Expected::Storage, b"DELETED\r\n"),
        (Expected::Storage, b"END\r\n"),
        (Expected::Storage, b"VALUE a 0 1\r\n"),
        (Expected::Deletion, b"STORED\r\n"),
        (Expected::Arithmetic, b"12x\r\n"),
        (Expected::Retrieval, b"STORED\r\n"),
        (Expected::Retrieval, b"VALUE a 0\r\n"),
        (Expected::Retrieval, b"VALUE  a 0 1\r\nx\r\nEND\r\n"),
        (Expected::Retrieval, b"VALUE a 0 99999999999999999999999\r\n"),
        (Expected::Retrieval, b"VALUE a 0 1073741825\r\n"),
        (Expected::Meta, b"VA 1073741825\r\n"),
        (Expected::Settings, b"VALUE a 0 1\r\n"),
        (Expected::Retrieval, b"VALUE a 0 18446744073709551615\r\n"),
        (Expected::Retrieval, b"VALUE a 0 1\r\nxyz\r\n"),
        (Expected::Retrieval, b"VALUE \r\n"),
        (Expected::Retrieval, b"VALUE a 0x 1\r\nx\r\nEND\r\n"),
        (Expected::Retrieval, b"VALUE a 4294967296 1\r\nx\r\nEND\r\n"),
        (Expected::Retrieval, b"VALUE a 0 -1\r\n"),
        (Expected::Retrieval, b"VALUE a 0 1 2x\r\nx\r\nEND\r\n"),
        (Expected::Retrieval, b"VALUE a 0 1 2 3\r\nx\r\nEND\r\n"),
    ];
    for (expected, bytes) in bad {
        assert!(scan(*expected, bytes).is_err(), "{}", bytes.escape_ascii());
    }
    assert_eq!(scan(Expected::Storage, &[b'a'; 5000]), Err(Violation::LineTooLong));
}

#[test]
fn a_miss_that_is_not_wanted_is_read_and_is_no_answer() {
    let scan = |bytes: &[u8]| {
        let found = ReplyScanner::default().scan(Expected::MetaUnlessMiss, bytes).expect("it fits");
        found.map(|reply| (reply.status, reply.len, reply.answer_len))
    };
    assert_eq!(scan(b"EN ka O7\r\nHD\r\n"), Some((Status::MetaSilent, 10, 0)));
    assert_eq!(scan(b"VA 4 O7\r\nEN\r\n\r\nEN\r\n"), Some((Status::MetaValue, 15, 15)));
    assert_eq!(scan(b"HD\r\n"), Some((Status::MetaDone, 4, 4)));
    assert_eq!(scan(b"SERVER_ERROR no\r\n"), Some((Status::ServerError, 17, 17)));
    assert_eq!(scan(b"EN"), None);
    assert!(ReplyScanner::default().scan(Expected::MetaUnlessMiss, b"MN\r\n").is_err());
}

#[test]
fn values_are_found_by_their_length() {
    let bytes = b"VALUE key 7 5 99\r\nEND\r\n\r\nVALUE b 0 0\r\n\r\nEND\r\nnext";
    let mut scanner = ReplyScanner::default();
    let reply = scanner.scan(Expected::Retrieval, bytes).expect("well formed").expect("complete");
    assert_eq!((reply.len, reply.status), (bytes.len() - 4, Status::End));
    assert_eq!(&bytes[reply.last_line..reply.len], b"END\r\n");
    let [first, second] = scanner.values() else { panic!("two values") };
    assert_eq!((&bytes[first.key.clone()], &bytes[first.data.clone()]), (&b"key"[..], &b"END\r\n"[..]));
    assert_eq!((first.flags, first.cas, second.cas), (7, Some(99), None));
    assert_eq!(&bytes[second.block.clone()], b"VALUE b 0 0\r\n\r\n");
}

#[test]
fn an_error_may_end_a_retrieval() {
    let bytes = b"VALUE a 0 1\r\nx\r\nSERVER_ERROR out of memory writing get response\r\n";
    let reply =
        ReplyScanner::default().scan(Expected::Retrieval, bytes).expect("well formed").expect("complete");
    assert_eq!((reply.status, reply.last_line, reply.len), (Status::ServerError, 16, bytes.len()));
}

fn replies() -> impl Strategy<Value = Vec<(Expected, Vec<u8>)>> {
    let value = (
        "[a-z]{1,9}",
        any::<u32>(),
        prop::collection::vec(any::<u8>(), 0..40),
        prop::option::of(any::<u64>()),
    )
        .prop_map(|(key, flags, data, cas)| {
            let cas = cas.map(|cas| format!(" {cas}")).unwrap_or_default();
            [format!("VALUE {key} {flags} {}{cas}\r\n", data.len()).as_bytes(), &data, b"\r\n"].concat()
        });
    let retrieval = prop::collection::vec(value, 0..6)
        .prop_map(|values| (Expected::Retrieval, [values.concat(), b"END\r\n".to_vec()].concat()));
    let line = prop_oneof![
        Just((Expected::Storage, b"STORED\r\n".to_vec())),
        Just((Expected::Deletion, b"NOT_FOUND\r\n".to_vec())),
        Just((Expected::Arithmetic, b"12\r\n".to_vec())),
        Just((Expected::Touch, b"SERVER_ERROR x\r\n".to_vec())),
    ];
    prop::collection::vec(prop_oneof![retrieval, line], 1..10)
}

proptest! {
    #[test]
    fn any_cut_of_the_bytes_gives_the_same_replies(replies in replies(), cuts in prop::collection::vec(1..30_usize, 1..100)) {
        let bytes: Vec<u8> = replies.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        let mut scanner = ReplyScanner::default();
        let (mut start, mut end) = (0, 0);
        let mut cuts = cuts.iter().cycle();
        let mut wanted = replies.iter();
        let mut current = wanted.next();
        while end < bytes.len() {
            end = bytes.len().min(end + cuts.next().expect("a cycle has no end"));
            while let Some((expected, text)) = current {
                let Some(reply) = scanner.scan(*expected, &bytes[start..end]).expect("well formed") else { break };
                prop_assert_eq!(reply.len, text.len());
                let blocks: usize = scanner.values().iter().map(|value| value.block.len()).sum();
                prop_assert_eq!(blocks, reply.last_line);
                start += reply.len;
                current = wanted.next();
            }
        }
        prop_assert!(current.is_none(), "replies are left over");
    }

    #[test]
    fn no_bytes_from_a_server_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for expected in [Expected::Retrieval, Expected::Storage, Expected::Arithmetic, Expected::Version] {
            let _ = scan(expected, &bytes);
            let _ = scan(expected, &[b"VALUE ", &bytes[..]].concat());
        }
    }
}

/// Takes the replies to retrievals of these keys, asked for in one message, as `piece` after `piece` comes: for each the keys whose
/// values it got, and at last the status that ended all.
fn joined(retrievals: &[Vec<u8>], pieces: &[&[u8]]) -> Result<(Vec<Vec<u8>>, Option<Status>), Violation> {
    let mut scanner = ReplyScanner::default();
    let (mut buffer, mut found, mut left) =
        (Vec::new(), vec![Vec::new(); retrievals.len()], retrievals[0].as_slice());
    let mut head = 0;
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let is_last = head + 1 == retrievals.len();
            let whose = |key: &[u8]| match left.iter().position(|own| key == [*own]) {
                None => {
                    left = &[];
                    Whose::Others
                }
                Some(position) => {
                    left = &left[position + 1..];
                    if left.is_empty() { Whose::HeadsLast } else { Whose::Heads }
                }
            };
            let reply = if is_last {
                scanner.scan(Expected::Retrieval, &buffer)?
            } else {
                scanner.scan_joined(&buffer, whose)?
            };
            let Some(reply) = reply else { break };
            found[head] = scanner.values().iter().map(|value| buffer[value.key.clone()][0]).collect();
            buffer.drain(..reply.len);
            if reply.status != Status::Values {
                assert!(buffer.is_empty(), "nothing follows");
                return Ok((found, Some(reply.status)));
            }
            head += 1;
            left = &retrievals[head];
        }
    }
    Ok((found, None))
}

#[test]
fn a_reply_to_several_belongs_to_each_as_far_as_its_keys_go() {
    let retrievals = [vec![b'a'], vec![b'b', b'c'], vec![b'd']];
    let all =
        [b"VALUE a 0 1\r\nx\r\n".as_slice(), b"VALUE c 0 1\r\nx\r\n", b"VALUE d 0 1\r\nx\r\n", b"END\r\n"];
    let expected = vec![vec![b'a'], vec![b'c'], vec![b'd']];
    assert_eq!(joined(&retrievals, &all), Ok((expected.clone(), Some(Status::End))));
    assert_eq!(
        joined(&retrievals, &all[..3]),
        Ok((expected[..2].iter().cloned().chain([vec![]]).collect(), None))
    );
    let stopped = [all[0], b"SERVER_ERROR out of memory\r\n"];
    assert_eq!(
        joined(&retrievals, &stopped),
        Ok((vec![vec![b'a'], vec![], vec![]], Some(Status::ServerError)))
    );
    assert!(joined(&retrievals, &[b"STORED\r\n"]).is_err());
    assert!(joined(&retrievals, &[b"VALUE a 0\r\n"]).is_err());
    assert!(joined(&retrievals, &[b"VALUE a 0 1\r\nxyz\r\n"]).is_err());
}

proptest! {
    #[test]
    fn a_reply_to_several_may_be_cut_anywhere(
        retrievals in prop::collection::vec((1usize..4, any::<u8>()), 1..6),
        len in 0usize..30,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let (mut keys, mut wanted, mut expected, mut bytes) = (b'a'.., Vec::new(), Vec::new(), Vec::new());
        for (count, hits) in retrievals {
            let own: Vec<u8> = keys.by_ref().take(count).collect();
            let found: Vec<u8> = own.iter().copied().enumerate().filter(|(at, _)| hits >> at & 1 == 1).map(|(_, key)| key).collect();
            for key in &found {
                bytes.extend_from_slice(format!("VALUE {} 0 {len}\r\n", char::from(*key)).as_bytes());
                bytes.extend(b"END\r\nVALUE b 0 1\r\n".iter().cycle().take(len));
                bytes.extend_from_slice(b"\r\n");
            }
            wanted.push(own);
            expected.push(found);
        }
        bytes.extend_from_slice(b"END\r\n");
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(joined(&wanted, &pieces), Ok((expected, Some(Status::End))));
    }
}
