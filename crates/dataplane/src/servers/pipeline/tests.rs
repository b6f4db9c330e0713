//! What becomes of messages, by their bytes.

use super::*;
use crate::servers::begun::Begun;
use weir_protocol::RetrievalVerb;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn new_part(request: RequestKey) -> NewPart {
    NewPart::of(request, Expected::Retrieval, Begun::at(at(0)))
}

/// A get that is joined to the one before, if that may be.
fn get(pipeline: &mut Pipeline, request: usize, keys: &[&str]) -> bool {
    let joins = pipeline.open_line();
    pipeline.begin(new_part(RequestKey::from_index(request)), Purpose::Request, at(100), at(0));
    let text = keys.join(" ");
    let retrieval = Retrieval::of(RetrievalVerb::Get, text.as_bytes(), keys.len());
    pipeline.begin_retrieval(retrieval, true, joins);
    retrieval.keys().for_each(|key| pipeline.push_key(key));
    pipeline.end_retrieval()
}

fn output(pipeline: &Pipeline) -> &str {
    std::str::from_utf8(pipeline.output(false)).expect("text")
}

fn keys_of(pipeline: &Pipeline) -> Vec<Vec<&[u8]>> {
    pipeline.parts_with_keys().map(|(_, keys)| Names(keys).collect()).collect()
}

#[test]
fn gets_that_wait_share_a_message_until_the_driver_takes_it() {
    let mut pipeline = Pipeline::default();
    assert!(!get(&mut pipeline, 1, &["a"]));
    assert!(get(&mut pipeline, 2, &["b", "c"]));
    assert_eq!(output(&pipeline), "get a b c\r\n");
    let mut taken = Vec::new();
    assert_eq!(pipeline.dequeue(false, |request, before| taken.push((request.index(), before))), 2);
    assert_eq!(taken, [(1, 0), (2, 1)]);
    assert!(!get(&mut pipeline, 3, &["d"]));
    assert_eq!(output(&pipeline), "get a b c\r\nget d\r\n");
    assert_eq!(keys_of(&pipeline), [vec![&b"a"[..]], vec![b"b", b"c"], vec![b"d"]]);
    assert_eq!((pipeline.sharer_count(), pipeline.is_head_followed()), (2, true));
}

#[test]
fn a_key_that_the_message_has_is_asked_for_once() {
    let mut pipeline = Pipeline::default();
    get(&mut pipeline, 1, &["a"]);
    assert!(get(&mut pipeline, 2, &["b", "a"]));
    assert!(get(&mut pipeline, 3, &["a"]));
    assert!(get(&mut pipeline, 4, &["c"]));
    assert_eq!(output(&pipeline), "get a b c\r\n");
    assert_eq!(keys_of(&pipeline), [vec![&b"a"[..]], vec![b"b", b"a"], vec![b"a"], vec![b"c"]]);
    let twins: Vec<_> = pipeline.parts().iter().map(Part::has_twins).collect();
    assert_eq!(twins, [true, true, true, false]);
    assert_eq!(pipeline.twins_at_head(), 2);
    let places = |from| pipeline.twins().find(0, from, 2).map(|(number, twin)| (number, twin.place()));
    assert_eq!([places(0), places(1), places(2)], [Some((0, (1, 1))), Some((1, (2, 0))), None]);
    assert_eq!(pipeline.twins().find(2, 0, 2), None, "b is wanted once");
}

#[test]
fn a_get_that_names_a_key_twice_has_a_message_of_its_own() {
    let mut pipeline = Pipeline::default();
    get(&mut pipeline, 1, &["a"]);
    assert!(!get(&mut pipeline, 2, &["a", "b", "b", "c"]));
    assert!(!get(&mut pipeline, 3, &["d"]));
    assert_eq!(output(&pipeline), "get a\r\nget a b b c\r\nget d\r\n");
    assert_eq!(keys_of(&pipeline)[1], [b"a", b"b", b"b", b"c"]);
    assert_eq!(pipeline.twins_at_head(), 0, "what it wants is its own");
    // Also where another asks for it, too.
    assert!(get(&mut pipeline, 4, &["a"]));
    assert!(!get(&mut pipeline, 5, &["a", "b", "a"]));
    assert!(output(&pipeline).ends_with("get d a\r\nget a b a\r\n"), "{}", output(&pipeline));
}

#[test]
fn a_driver_learns_where_messages_end() {
    let ends = |pipeline: &Pipeline| pipeline.message_ends().collect::<Vec<_>>();
    let mut pipeline = Pipeline::default();
    assert_eq!(ends(&pipeline), [0; 0]);
    get(&mut pipeline, 1, &["a"]);
    get(&mut pipeline, 2, &["b", "a"]);
    pipeline.dequeue(false, |_, _| ());
    get(&mut pipeline, 3, &["c"]);
    assert_eq!(output(&pipeline), "get a b\r\nget c\r\n");
    assert_eq!(ends(&pipeline), [9, 16], "gets that share a message end together");
    pipeline.note_written(4, at(5), |_| ());
    assert_eq!(ends(&pipeline), [5, 12]);
    pipeline.note_written(5, at(5), |_| ());
    assert_eq!(ends(&pipeline), [7], "what was written has no end any more");
    get(&mut pipeline, 4, &["d"]);
    set(&mut pipeline, 5, "e", &[]);
    assert_eq!(output(&pipeline), "set e 0 0 1\r\nx\r\nget c d\r\n", "nothing of the get was taken");
    assert_eq!(ends(&pipeline), [16, 25]);
}

/// It was taken for a part of the message behind it, and for the beginning of what another connection is sent.
#[test]
fn the_rest_of_a_message_that_was_answered_early_ends_by_itself_and_with_its_connection() {
    let mut pipeline = Pipeline::default();
    set(&mut pipeline, 1, "a", &[]);
    pipeline.dequeue(false, |_, _| ());
    pipeline.note_written("set a 0 0 1\r\n".len(), at(5), |_| ());
    pipeline.take_head();
    get(&mut pipeline, 2, &["b"]);
    assert_eq!(output(&pipeline), "x\r\nget b\r\n");
    assert_eq!(pipeline.message_ends().collect::<Vec<_>>(), [3, 10]);
    assert_eq!(pipeline.output(true), b"x\r\n");
    pipeline.drop_begun(|_| ());
    assert_eq!(output(&pipeline), "get b\r\n");
    assert_eq!(pipeline.message_ends().collect::<Vec<_>>(), [7]);
}

/// A message of this key, which goes ahead of the gets if none of these requests asks for the key.
fn set(pipeline: &mut Pipeline, request: usize, key: &str, own: &[usize]) {
    pipeline.begin(new_part(RequestKey::from_index(request)), Purpose::Request, at(100), at(0));
    pipeline.message().extend_from_slice(format!("set {key} 0 0 1\r\nx\r\n").as_bytes());
    pipeline.end_message();
    if let Some(place) = pipeline.place_ahead(key.as_bytes(), |request| own.contains(&request.index())) {
        pipeline.go_ahead(place);
    }
}

fn requests(pipeline: &Pipeline) -> Vec<usize> {
    pipeline.parts().iter().filter_map(Part::request).map(RequestKey::index).collect()
}

#[test]
fn a_message_of_another_client_or_key_goes_ahead_of_the_gets_that_wait() {
    let mut pipeline = Pipeline::default();
    get(&mut pipeline, 0, &["z"]);
    pipeline.dequeue(false, |_, _| ());
    get(&mut pipeline, 1, &["a"]);
    get(&mut pipeline, 2, &["b", "a"]);
    set(&mut pipeline, 3, "a", &[7]);
    set(&mut pipeline, 4, "c", &[1, 2]);
    assert!(get(&mut pipeline, 5, &["c"]));
    let expected = "get z\r\nset a 0 0 1\r\nx\r\nset c 0 0 1\r\nx\r\nget a b c\r\n";
    assert_eq!(output(&pipeline), expected);
    assert_eq!(requests(&pipeline), [0, 3, 4, 1, 2, 5]);
    assert_eq!(keys_of(&pipeline)[3..], [vec![&b"a"[..]], vec![b"b", b"a"], vec![b"c"]]);
    // Each knows where it stands.
    let mut forwarded = Vec::new();
    pipeline.dequeue(false, |_, _| ());
    let first = "get z\r\nset a 0 0 1\r\nx\r\nset".len();
    pipeline.note_written(first, at(5), |request| forwarded.push(request.index()));
    assert_eq!(forwarded, [0, 3]);
    pipeline.note_written(expected.len() - first, at(5), |request| forwarded.push(request.index()));
    assert_eq!(forwarded, [0, 3, 4, 1, 2, 5]);
}

#[test]
fn a_message_stays_behind_a_get_of_the_same_client_and_key() {
    let mut pipeline = Pipeline::default();
    get(&mut pipeline, 1, &["a"]);
    get(&mut pipeline, 2, &["b", "a"]);
    set(&mut pipeline, 3, "a", &[2]);
    assert!(!get(&mut pipeline, 4, &["c"]));
    assert_eq!(output(&pipeline), "get a b\r\nset a 0 0 1\r\nx\r\nget c\r\n");
    assert_eq!(requests(&pipeline), [1, 2, 3, 4]);
}

#[test]
fn nothing_goes_ahead_of_what_the_driver_has_taken() {
    let mut pipeline = Pipeline::default();
    get(&mut pipeline, 1, &["a"]);
    pipeline.dequeue(false, |_, _| ());
    set(&mut pipeline, 2, "b", &[]);
    assert_eq!(requests(&pipeline), [1, 2]);
    get(&mut pipeline, 3, &["c"]);
    set(&mut pipeline, 4, "b", &[]);
    assert_eq!(requests(&pipeline), [1, 2, 4, 3]);
}

#[test]
fn what_is_asked_for_again_alone_is_asked_for_once_for_all_who_want_it() {
    let mut pipeline = Pipeline::default();
    let again = |pipeline: &mut Pipeline, request: usize, keys: &str| {
        let noted: Vec<u8> = keys.bytes().flat_map(|key| [1, key]).collect();
        let part = new_part(RequestKey::from_index(request));
        match pipeline.place_beside(&noted, 1) {
            Some(place) => pipeline.insert_beside(place, part, at(100), at(0)),
            None => {
                pipeline.begin(part, Purpose::Request, at(100), at(0));
                pipeline.message().extend_from_slice(b"get");
                Names(&noted).for_each(|key| pipeline.push_key(key));
                pipeline.message().extend_from_slice(b"\r\n");
                pipeline.end_message();
                pipeline.note_try(1);
            }
        }
    };
    for (request, keys) in [(1, "a"), (2, "b"), (3, "a"), (4, "ab"), (5, "a"), (6, "ab")] {
        again(&mut pipeline, request, keys);
    }
    assert_eq!(output(&pipeline), "get a\r\nget b\r\nget a b\r\n");
    assert_eq!(requests(&pipeline), [1, 3, 5, 2, 4, 6]);
    assert!(!pipeline.open_line(), "nothing else is joined to them");
    let keys: Vec<_> = keys_of(&pipeline).into_iter().map(|keys| keys.concat()).collect();
    assert_eq!(keys, [&b"a"[..], b"a", b"a", b"b", b"ab", b"ab"]);
    let mut forwarded = Vec::new();
    pipeline.dequeue(false, |_, _| ());
    pipeline.note_written(3, at(5), |request| forwarded.push(request.index()));
    assert!(forwarded.is_empty());
    pipeline.note_written(4, at(5), |request| forwarded.push(request.index()));
    assert_eq!(forwarded, [1, 3, 5]);
}

#[test]
fn a_request_is_forwarded_when_the_last_byte_of_its_message_is_written() {
    let mut pipeline = Pipeline::default();
    get(&mut pipeline, 1, &["a"]);
    get(&mut pipeline, 2, &["b"]);
    pipeline.dequeue(false, |_, _| ());
    let mut forwarded = Vec::new();
    pipeline.note_written(3, at(5), |request| forwarded.push(request.index()));
    assert!(forwarded.is_empty() && pipeline.head().is_some());
    pipeline.note_written("get a b\r\n".len() - 3, at(6), |request| forwarded.push(request.index()));
    assert_eq!(forwarded, [1, 2], "they left together");
    assert!(pipeline.output(false).is_empty());
    pipeline.take_keys(2);
    assert_eq!(pipeline.take_head().request(), Some(RequestKey::from_index(1)));
    assert_eq!(pipeline.keys_of_head(), b"\x01b");
    assert!(pipeline.is_within_message());
}

#[test]
fn what_was_begun_is_over_with_the_connection_and_what_waits_stays() {
    let mut pipeline = Pipeline::default();
    get(&mut pipeline, 1, &["a"]);
    pipeline.dequeue(false, |_, _| ());
    get(&mut pipeline, 2, &["b"]);
    pipeline.note_written(3, at(5), |_| ());
    assert_eq!(pipeline.output(true), b" a\r\n", "only the rest of what was begun is written");
    assert_eq!(pipeline.begun_settled_at(), None, "a request waits for it");
    let mut over = Vec::new();
    let (count, lost) = pipeline.drop_begun(|part| over.push(part.request()));
    assert_eq!((count, over, lost), (1, vec![Some(RequestKey::from_index(1))], LostMessages::default()));
    assert_eq!((output(&pipeline), pipeline.keys_of_head()), ("get b\r\n", &b"\x01b"[..]));
    pipeline.clear();
    assert!(pipeline.is_quiet() && pipeline.settled_at() == Some(Instant::ZERO));
}

#[test]
fn repair_messages_and_begun_writes_are_at_stake_and_reads_are_not() {
    let mut pipeline = Pipeline::default();
    let mut send = |purpose, expected| {
        let created = Begun::at(at(0));
        let part = match purpose {
            Purpose::Request => NewPart::of(RequestKey::from_index(1), expected, created),
            _ => NewPart::of_nobody(expected, created),
        };
        pipeline.begin(part, purpose, at(100), at(0));
        pipeline.message().extend_from_slice(b"1234");
        pipeline.end_message();
    };
    send(Purpose::Delete, Expected::Deletion);
    send(Purpose::Delete, Expected::Deletion);
    send(Purpose::Flush, Expected::Flush);
    send(Purpose::Request, Expected::Storage);
    let lost = pipeline.lost_messages();
    assert_eq!((lost.deletes(), lost.has_flush(), lost.has_writes()), (2, true, false));
    pipeline.dequeue(false, |_, _| ());
    pipeline.note_written(13, at(1), |_| ());
    assert!(pipeline.lost_messages().has_writes(), "the server has its first byte");
}
