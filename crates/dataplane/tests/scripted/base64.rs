//! Keys in base64: whatever a client writes there, it costs nobody else a reply, a key, a connection or freshness.

use crate::world::World;

/// Each is a spelling of `a` (memcached 1.6.18 shows so by what it repeats).
const SPELLINGS: [&str; 5] = ["YQ==", "YQ==YQ==", "*Y-Q==", "YR==", "Y!Q=="];

#[test]
fn a_key_has_one_place_and_one_spelling_at_servers_however_it_is_written() {
    for spelling in SPELLINGS {
        let mut world = World::new(3, 1);
        let client = world.client();
        let server = world.router.primary(b"a");
        for (request, sent, reply, heard) in [
            ("mg KEY b v k t", "mg YQ== b v t", "VA 1 t-1/x", "VA 1 kKEY b t-1/x"),
            ("mg KEY t b O7 k v", "mg YQ== t b O7 v", "VA 1 t-1 O7 W/x", "VA 1 t-1 O7 kKEY b W/x"),
            ("mg KEY k b", "mg YQ== b", "EN", "EN kKEY b"),
            ("mg KEY b k O1", "mg YQ== b O1", "EN O1", "EN kKEY b O1"),
            ("mg KEY b k q v", "mg YQ== b v", "EN", ""),
            ("mg KEY q b k v", "mg YQ== b v", "VA 1/x", "VA 1 kKEY b/x"),
            ("mg KEY b k q N9", "mg YQ== b q N9/mn", "MN", ""),
            ("mg KEY bfoo kbar", "mg YQ== bfoo", "HD", "HD kKEY b"),
            ("mg KEY b k Nx", "mg YQ== b Nx", "CLIENT_ERROR bad token", "CLIENT_ERROR bad token"),
            ("ms KEY 1 c b k/x", "ms YQ== 1 c b/x", "HD c5", "HD c5 kKEY b"),
            ("ms KEY 1 b/x", "ms YQ== 1 b/x", "HD", "HD"),
            ("ms KEY 1 b k/x", "ms YQ== 1 b/x", "SERVER_ERROR out of memory", "SERVER_ERROR out of memory"),
            ("md KEY b k", "md YQ== b", "NF", "NF kKEY b"),
            ("ma KEY b N0 k v", "ma YQ== b N0 v", "VA 1/5", "VA 1 kKEY b/5"),
            ("me KEY b", "me YQ== b", "ME YQ== exp=-1", "ME YQ== exp=-1"),
        ] {
            let fill = |text: &str| {
                let text = format!("{text}\r\n").replace('/', "\r\n").replace("KEY", spelling);
                if text == "\r\n" { String::new() } else { text }
            };
            world.send(client, &fill(request));
            assert_eq!(world.server_gets(server), fill(sent), "{request} {spelling}");
            assert_eq!(world.hears(client, server, &fill(reply)), fill(heard), "{request} {spelling}");
        }
        assert!(world.dataplane.is_quiet());
    }
}

/// A key with a line ending in it, as a server repeats it that has forgotten that it came in base64.
#[test]
fn no_reply_is_forged_by_a_key_with_a_line_ending() {
    let mut world = World::new(1, 1);
    let (client, other) = (world.client(), world.client());
    world.send(client, "ms eA0KSEQ= 1 b MA k\r\nx\r\nmg eA0KSEQ= b k v\r\nme eA0KSEQ= b\r\n");
    world.send(other, "get b\r\n");
    assert_eq!(world.server_gets(0), "ms eA0KSEQ= 1 b MA\r\nx\r\nmg eA0KSEQ= b v\r\nget b\r\n");
    world.server_says(0, "HD\r\nVA 1\r\nx\r\nEND\r\n");
    let heard = "HD keA0KSEQ= b\r\nVA 1 keA0KSEQ= b\r\nx\r\nCLIENT_ERROR bad command line format\r\n";
    assert_eq!(world.client_gets(client), heard);
    assert_eq!(world.client_gets(other), "END\r\n");
    assert_eq!(world.report().counters.server_violations, 0);
}

#[test]
fn a_key_that_is_no_base64_reaches_no_server_and_no_journal() {
    let mut world = World::new(2, 2);
    let client = world.client();
    world.goes_down(1);
    for (request, answer) in [
        ("mg !!! b k v\r\n", "CLIENT_ERROR error decoding key\r\n"),
        ("ms !!! 2 b\r\nhi\r\n", "CLIENT_ERROR error decoding key\r\n"),
        ("ms A=== 2 b q\r\nhi\r\n", "CLIENT_ERROR error decoding key\r\n"),
        ("ms !!! 2 b b\r\nhi\r\n", "CLIENT_ERROR duplicate flag\r\n"),
        ("mg !!! b !\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("md !!! b k\r\n", "CLIENT_ERROR invalid or duplicate flag\r\n"),
        ("ma zzz b N0\r\n", "CLIENT_ERROR invalid or duplicate flag\r\n"),
        ("me !!! b\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ] {
        world.send(client, request);
        assert_eq!(world.client_gets(client), answer, "{request:?}");
    }
    let large = "x".repeat((1 << 20) + 1);
    world.send(client, &format!("ms !!! {} b\r\n{large}\r\n", large.len()));
    assert_eq!(world.client_gets(client), "CLIENT_ERROR error decoding key\r\n");
    assert_eq!(world.server_gets(0), "");
    assert_eq!(world.report().counters.journal_keys, 0);
}

#[test]
fn a_write_in_base64_that_a_server_misses_is_deleted_there_and_not_flushed() {
    let mut world = World::new(2, 2);
    let client = world.client();
    world.goes_down(1);
    world.send(client, "ms *Y-Q== 2 b\r\nhi\r\n");
    assert_eq!(world.server_gets(0), "ms YQ== 2 b\r\nhi\r\n");
    assert_eq!(world.hears(client, 0, "HD\r\n"), "HD\r\n");
    world.comes_back(1);
    assert_eq!(world.server_gets(1), "md YQ== b\r\n");
    world.server_says(1, "CLIENT_ERROR invalid or duplicate flag\r\n");
    assert_eq!(world.server_gets(1), "", "what it takes for no key it holds nothing of");
    assert_eq!(world.report().servers[1].journal, 0);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_delete_that_a_server_cannot_do_now_is_sent_again_and_nothing_is_flushed() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    world.goes_down(1);
    world.send(client, &format!("set {key} 0 0 1\r\nx\r\n"));
    world.server_gets(0);
    assert_eq!(world.hears(client, 0, "STORED\r\n"), "STORED\r\n");
    world.comes_back(1);
    for _ in 0..3 {
        assert_eq!(world.server_gets(1), format!("delete {key}\r\n"));
        world.server_says(1, "SERVER_ERROR out of memory\r\n");
        assert_eq!(world.server_gets(1), "");
        let due = world.dataplane.poll_timeout().expect("it is sent again");
        world.pass(due.saturating_since(world.now));
    }
    assert_eq!(world.server_gets(1), format!("delete {key}\r\n"));
    world.server_says(1, "DELETED\r\n");
    let counters = world.report().counters;
    assert_eq!((counters.journal_deletes_refused, counters.journal_flushes), (3, 0));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_copy_that_refuses_while_another_is_away_is_not_stale() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    world.goes_down(1);
    world.send(client, &format!("set {key} 0 0 1\r\nx\r\n"));
    world.server_gets(0);
    world.server_says(0, "SERVER_ERROR out of memory storing object\r\n");
    world.client_gets(client);
    world.send(client, &format!("get {key}\r\n"));
    assert_eq!(world.server_gets(0), format!("get {key}\r\n"), "it did nothing, so it lacks nothing");
}
