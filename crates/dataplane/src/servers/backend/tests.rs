//! One server: its values in step with each other.

use super::*;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn connected() -> Backend {
    let mut backend = Backend::new(Slot::from_index(0), at(0));
    backend.link_mut().begin(at(0));
    backend.link_mut().open(at(0));
    backend
}

/// Gets of these keys leave, in one message if the configuration says so.
fn ask(backend: &mut Backend, keys: &[&str], config: &Config) {
    for (request, key) in keys.iter().enumerate() {
        let part = NewPart::of(RequestKey::from_index(request), Expected::Retrieval, Begun::at(at(0)))
            .deciding(true);
        let retrieval = Retrieval::of(RetrievalVerb::Get, key.as_bytes(), 1);
        backend.begin_retrieval((part, false), (retrieval, 1), config, at(0));
        backend.push_key(key.as_bytes());
        backend.end_retrieval();
    }
    backend.dequeue(at(0), |_, _| ());
    backend.handle_written(backend.output().len(), 1, at(0), |_| ());
}

#[test]
fn a_reply_that_ends_with_a_renewed_connection_means_nothing_on_the_next_one() {
    let config = Config { join_gets: JoinGets::On, ..Config::default() };
    let mut backend = connected();
    ask(&mut backend, &["a", "b", "c"], &config);
    assert!(matches!(backend.scan_joined(b"VALUE b 0 1\r\n2\r\n"), Ok(Some(_))));
    assert!(matches!(backend.take_values(b"", 1000), Sorted::Kept));
    assert!(backend.is_scattered());
    backend.renew(at(10));
    assert!(!backend.is_scattered(), "the rest of it never comes");
    ask(&mut backend, &["d", "e"], &config);
    assert!(matches!(backend.scan_joined(b"VALUE d 0 1\r\n4\r\n"), Ok(Some((_, true)))));
}

#[test]
fn what_is_lost_with_the_connection_is_counted_out() {
    let config = Config::default();
    let mut backend = connected();
    ask(&mut backend, &["a", "b"], &config);
    assert_eq!(backend.tally().in_flight(at(1)).length, 2);
    let mut lost = Vec::new();
    backend.disconnect(at(1), |request, _, keys| lost.push((request.index(), keys.to_vec())));
    assert_eq!(lost, [(0, b"\x01a".to_vec()), (1, b"\x01b".to_vec())]);
    assert_eq!((backend.tally().in_flight(at(1)).length, backend.tally().queued(at(1)).length), (0, 0));
    assert!(backend.is_quiet());
}

#[test]
fn whoever_denies_comes_before_a_server_that_is_down_or_full() {
    let config = Config { server_requests_max: 2, ..Config::default() };
    let mut backend = connected();
    ask(&mut backend, &["a", "b"], &config);
    assert_eq!(backend.admit(&config), Err(Fault::Full));
    backend.link_mut().silence();
    assert_eq!(backend.admit(&config), Err(Fault::Down));
    backend.deny(Some(Fault::Queue));
    assert_eq!(backend.admit(&config), Err(Fault::Queue));
}
