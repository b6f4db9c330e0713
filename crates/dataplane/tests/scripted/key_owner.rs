//! Writes of keys that have replicas, where there are several loops: each key has one owner.

use crate::world::{MS, TIMEOUT, World, router, token};
use std::sync::Arc;
use weir_dataplane::{Config, LoopId, Mail, owner_of};
use weir_routing::Table;
use weir_timing::{Operation, Stage};

/// Two loops of one proxy, and the mail between them as the test carries it.
struct Pair {
    loops: [World; 2],
}

impl Pair {
    fn new(servers: usize, replicas: usize) -> Self {
        Self::with(servers, replicas, &Config::default())
    }

    fn with(servers: usize, replicas: usize, config: &Config) -> Self {
        let world = |index| {
            let loop_index = LoopId::from_index(index);
            World::with(servers, replicas, Config { loop_index, loop_count: 2, ..config.clone() })
        };
        Self { loops: [world(0), world(1)] }
    }

    /// What one loop has for the other.
    fn mail_of(&mut self, home: usize) -> Vec<Mail> {
        let dataplane = &mut self.loops[home].dataplane;
        let mail = std::iter::from_fn(|| dataplane.poll_mail());
        mail.inspect(|(to, _)| assert_eq!(to.index(), 1 - home, "nobody sends mail to himself"))
            .map(|(_, it)| it)
            .collect()
    }

    /// Carries what one loop has for the other; returns how much that was.
    fn carry_from(&mut self, home: usize) -> usize {
        let mail = self.mail_of(home);
        let (count, to) = (mail.len(), &mut self.loops[1 - home]);
        mail.into_iter().for_each(|it| to.dataplane.handle_mail(it, to.now));
        to.turn();
        count
    }

    fn pass(&mut self, nanos: u64) {
        self.loops.iter_mut().for_each(|it| it.pass(nanos));
    }

    fn is_quiet(&self) -> bool {
        self.loops.iter().all(|it| it.dataplane.is_quiet())
    }
}

/// Keys that loop 1 owns.
fn key_of_the_other(number: usize) -> String {
    let mine = |key: &String| owner_of(key.as_bytes(), 2) == LoopId::from_index(1);
    (0..).map(|number| format!("k{number}")).filter(mine).nth(number).expect("half of all keys are")
}

#[test]
fn a_write_goes_to_the_owner_of_its_key_and_its_reply_comes_back() {
    let mut pair = Pair::new(2, 2);
    let client = pair.loops[0].client();
    let key = key_of_the_other(0);
    pair.loops[0].send(client, &format!("set {key} 5 0 1\r\nx\r\n"));
    assert_eq!((pair.loops[0].server_gets(0), pair.loops[0].server_gets(1)), (String::new(), String::new()));
    pair.pass(MS);
    assert_eq!(pair.carry_from(0), 1);
    for server in 0..2 {
        assert_eq!(pair.loops[1].server_gets(server), format!("set {key} 5 0 1\r\nx\r\n"));
    }
    pair.pass(2 * MS);
    pair.loops[1].server_says(0, "STORED\r\n");
    assert_eq!(pair.carry_from(1), 0);
    pair.loops[1].server_says(1, "STORED\r\n");
    pair.pass(MS);
    assert_eq!(pair.carry_from(1), 1);
    assert_eq!(pair.loops[0].client_gets(client), "STORED\r\n");
    assert!(pair.is_quiet());
    // Counted and recorded once, by who has read it; the mail counts as waiting, and the way back as the reply.
    let reports = pair.loops.each_ref().map(World::report);
    assert_eq!(reports.each_ref().map(|it| it.counters.requests), [1, 0]);
    assert_eq!(reports[0].counters.requests_mailed, 1);
    assert_eq!(reports[1].timing.operation(Operation::Set).requests, 0);
    let set = reports[0].timing.operation(Operation::Set);
    let stages = [Stage::Queue, Stage::Backend, Stage::Reply].map(|stage| set.stage(stage).sum());
    assert_eq!(stages, [MS, 2 * MS, MS].map(u128::from));
    assert_eq!((set.requests, set.total.sum()), (1, u128::from(4 * MS)));
}

#[test]
fn the_owner_and_who_has_no_replicas_send_no_mail() {
    for (replicas, key) in [
        (
            2,
            (0..).map(|it| format!("k{it}")).find(|key| owner_of(key.as_bytes(), 2) == LoopId::from_index(0)),
        ),
        (1, Some(key_of_the_other(0))),
    ] {
        let mut pair = Pair::new(2, replicas);
        let client = pair.loops[0].client();
        let key = key.expect("half of all keys are");
        pair.loops[0].send(client, &format!("set {key} 0 0 1\r\nx\r\n"));
        assert!(pair.mail_of(0).is_empty());
        let got = pair.loops[0].server_gets(0) + &pair.loops[0].server_gets(1);
        assert_eq!(got, format!("set {key} 0 0 1\r\nx\r\n").repeat(replicas));
    }
}

#[test]
fn every_kind_of_write_is_mailed_whole() {
    let key = key_of_the_other(0);
    let cas = token(World::new(2, 2).router.primary(key.as_bytes()), 7);
    for (request, sent) in [
        (format!("set {key} 7 100 2 noreply\r\n\r\n\r\n"), format!("set {key} 7 100 2\r\n\r\n\r\n")),
        (format!("delete {key}\r\n"), format!("delete {key}\r\n")),
        (format!("touch {key} 5\r\n"), format!("touch {key} 5\r\n")),
        (format!("incr {key} 5\r\n"), format!("incr {key} 5\r\n")),
        (format!("cas {key} 0 0 1 {cas}\r\nx\r\n"), format!("cas {key} 0 0 1 7\r\nx\r\n")),
        (format!("ms {key} 1 T9 Oabc k\r\nx\r\n"), format!("ms {key} 1 T9 Oabc k\r\nx\r\n")),
        (format!("md {key} q\r\n"), format!("md {key} q\r\nmn\r\n")),
        (format!("ma {key} N0 J13\r\n"), format!("ma {key} N0 J13\r\nmg {key} k v f t\r\n")),
    ] {
        let mut pair = Pair::new(2, 2);
        let client = pair.loops[0].client();
        pair.loops[0].send(client, &request);
        assert_eq!(pair.carry_from(0), 1, "{request}");
        let got = [0, 1].map(|server| pair.loops[1].server_gets(server));
        assert!(got.contains(&sent), "{request}: {got:?}");
    }
}

#[test]
fn a_value_that_is_too_large_erases_the_old_one_at_the_owner() {
    let mut config = Config::default();
    config.limits.value_bytes_max = 3;
    let mut pair = Pair::with(2, 2, &config);
    let client = pair.loops[0].client();
    let key = key_of_the_other(0);
    pair.loops[0].send(client, &format!("set {key} 0 0 4\r\nabcd\r\nversion\r\n"));
    assert_eq!(pair.carry_from(0), 1);
    for server in 0..2 {
        assert_eq!(pair.loops[1].server_gets(server), format!("delete {key}\r\n"));
        pair.loops[1].server_says(server, "DELETED\r\n");
    }
    pair.carry_from(1);
    let reply = pair.loops[0].client_gets(client);
    assert_eq!(reply, "SERVER_ERROR object too large for cache\r\nVERSION 1.6.18\r\n");
    assert!(pair.is_quiet());
}

#[test]
fn the_deadline_of_a_mailed_write_runs_from_its_creation() {
    let mut pair = Pair::new(2, 2);
    let client = pair.loops[0].client();
    let key = key_of_the_other(0);
    pair.loops[0].send(client, &format!("set {key} 0 0 1\r\nx\r\n"));
    pair.pass(TIMEOUT - 2 * MS);
    pair.carry_from(0);
    (0..2).for_each(|server| _ = pair.loops[1].server_gets(server));
    pair.pass(MS);
    assert_eq!(pair.carry_from(1), 0);
    pair.pass(MS);
    assert_eq!(pair.carry_from(1), 1);
    let reply = pair.loops[0].client_gets(client);
    assert!(reply.starts_with("SERVER_ERROR timeout s:"), "{reply}");
    let counters = pair.loops.each_ref().map(|it| it.report().counters);
    assert_eq!(counters.map(|it| it.requests_failed), [1, 0]);
}

#[test]
fn the_row_of_a_mailed_write_says_why_it_failed() {
    let mut pair = Pair::new(2, 2);
    pair.loops[0].dataplane.trace(1.0, 1);
    let client = pair.loops[0].client();
    pair.loops[0].send(client, &format!("set {} 0 0 1\r\nx\r\n", key_of_the_other(0)));
    pair.carry_from(0);
    (0..2).for_each(|server| _ = pair.loops[1].server_gets(server));
    pair.pass(TIMEOUT);
    pair.carry_from(1);
    assert!(pair.loops[0].client_gets(client).starts_with("SERVER_ERROR timeout "));
    let mut outcomes = Vec::new();
    assert_eq!(pair.loops[0].dataplane.take_traces(|row| outcomes.push(row.outcome)), 0);
    assert_eq!(outcomes, ["timeout"]);
}

#[test]
fn no_more_writes_than_allowed_are_under_way_to_one_loop() {
    let mut pair = Pair::with(2, 2, &Config { mail_requests_max: 2, ..Config::default() });
    let client = pair.loops[0].client();
    let keys = [0, 1, 2].map(key_of_the_other);
    for key in &keys {
        pair.loops[0].send(client, &format!("delete {key}\r\n"));
    }
    assert_eq!(pair.carry_from(0), 2);
    assert_eq!(pair.loops[0].report().counters.mail_refusals_full, 1);
    for server in 0..2 {
        pair.loops[1].server_gets(server);
        pair.loops[1].server_says(server, "DELETED\r\nDELETED\r\n");
    }
    pair.carry_from(1);
    let reply = pair.loops[0].client_gets(client);
    assert_eq!(reply, "DELETED\r\nDELETED\r\nSERVER_ERROR queue-full proxy\r\n");
    pair.loops[0].send(client, &format!("delete {}\r\n", keys[2]));
    assert_eq!(pair.carry_from(0), 1, "there is room again");
}

#[test]
fn a_client_that_goes_away_harms_nobody_at_either_loop() {
    let mut pair = Pair::new(2, 2);
    let client = pair.loops[0].client();
    let key = key_of_the_other(0);
    pair.loops[0].send(client, &format!("set {key} 0 0 1\r\nx\r\ndelete {key} noreply\r\n"));
    pair.carry_from(0);
    pair.loops[0].dataplane.handle_client_closed(client);
    assert!(!pair.loops[0].dataplane.is_drained(), "its requests are still carried out");
    for server in 0..2 {
        pair.loops[1].server_gets(server);
        pair.loops[1].server_says(server, "STORED\r\nDELETED\r\n");
    }
    assert_eq!(pair.carry_from(1), 2);
    assert_eq!(pair.loops[0].report().counters.requests_orphaned, 2);
    assert!(pair.loops[0].dataplane.is_drained() && pair.is_quiet());
}

#[test]
fn a_read_waits_for_the_mailed_write_before_it_and_nothing_else_does() {
    let mut pair = Pair::new(2, 2);
    let [a, b] = [0, 1].map(|_| pair.loops[0].client());
    let key = key_of_the_other(0);
    pair.loops[0].send(a, &format!("set {key} 0 0 1\r\nx\r\nget {key}\r\n"));
    pair.loops[0].send(b, &format!("get {key}\r\n"));
    assert!(!pair.loops[0].dataplane.wants_read(a) && pair.loops[0].dataplane.wants_read(b));
    let got = [0, 1].map(|server| pair.loops[0].server_gets(server));
    assert_eq!(got.concat(), format!("get {key}\r\n"), "the other client's");
    pair.carry_from(0);
    for server in 0..2 {
        pair.loops[1].server_gets(server);
        pair.loops[1].server_says(server, "STORED\r\n");
    }
    pair.carry_from(1);
    let got = [0, 1].map(|server| pair.loops[0].server_gets(server));
    assert_eq!(got.concat(), format!("get {key}\r\n"));
    assert!(pair.loops[0].dataplane.wants_read(a));
    assert_eq!(pair.loops[0].report().counters.session_order_waits, 1);
}

#[test]
fn a_mailed_write_waits_for_the_read_before_it() {
    let mut pair = Pair::new(2, 2);
    let client = pair.loops[0].client();
    let key = key_of_the_other(0);
    let server = pair.loops[0].router.primary(key.as_bytes());
    pair.loops[0].send(client, &format!("get {key}\r\nset {key} 0 0 1\r\nx\r\nversion\r\n"));
    assert!(pair.mail_of(0).is_empty());
    assert_eq!(pair.loops[0].server_gets(server), format!("get {key}\r\n"));
    pair.loops[0].server_says(server, "END\r\n");
    assert_eq!(pair.carry_from(0), 1);
    for server in 0..2 {
        pair.loops[1].server_gets(server);
        pair.loops[1].server_says(server, "STORED\r\n");
    }
    pair.carry_from(1);
    assert_eq!(pair.loops[0].client_gets(client), "END\r\nSTORED\r\nVERSION 1.6.18\r\n");
    assert!(pair.is_quiet());
}

/// It was parsed again with each reply to what its client had sent before it.
#[test]
fn a_get_of_very_many_keys_is_not_looked_at_again_before_its_client_is_answered() {
    let mut pair = Pair::new(2, 2);
    let client = pair.loops[0].client();
    let key = key_of_the_other(0);
    let read = pair.loops[0].keys_on(0, 9).into_iter().find(|read| *read != key).expect("these are nine");
    let long = format!("get{}\r\n", (0..9_000).map(|it| format!(" k{it:06}")).collect::<String>());
    pair.loops[0].send(client, &format!("set {key} 0 0 1\r\nx\r\nget {read}\r\n{long}"));
    assert_eq!(pair.loops[0].server_gets(0), format!("get {read}\r\n"));
    pair.carry_from(0);
    for server in 0..2 {
        pair.loops[1].server_gets(server);
        pair.loops[1].server_says(server, "STORED\r\n");
    }
    pair.carry_from(1);
    assert_eq!(pair.loops[0].client_gets(client), "STORED\r\n");
    assert_eq!(pair.loops[0].server_gets(0), "", "a request before it has no answer");
    pair.loops[0].server_says(0, "END\r\n");
    assert_eq!(pair.loops[0].client_gets(client), "END\r\n");
    let asked = [0, 1].map(|server| pair.loops[0].server_gets(server).len());
    assert!(asked.iter().sum::<usize>() > 9_000 * 8, "{asked:?}");
    assert_eq!(pair.loops[0].report().counters.session_order_waits, 1);
}

#[test]
fn a_key_keeps_its_owner_while_two_loops_go_by_different_tables() {
    let mut pair = Pair::new(2, 2);
    let client = pair.loops[0].client();
    let key = key_of_the_other(0);
    let table = Table::from(router(&["s:1", "s:2", "s:3"], 2));
    let it = &mut pair.loops[0];
    it.dataplane.handle_table(Arc::new(table), it.now);
    pair.loops[0].send(client, &format!("delete {key}\r\n"));
    assert_eq!(pair.carry_from(0), 1);
    for server in 0..2 {
        assert_eq!(pair.loops[1].server_gets(server), format!("delete {key}\r\n"), "by the owner's table");
    }
}

#[test]
fn a_loop_that_ends_serves_what_others_still_send() {
    let mut pair = Pair::new(2, 2);
    let client = pair.loops[0].client();
    let key = key_of_the_other(0);
    pair.loops[1].dataplane.begin_drain();
    assert!(pair.loops[1].dataplane.is_drained());
    pair.loops[0].send(client, &format!("delete {key}\r\n"));
    pair.loops[0].dataplane.begin_drain();
    assert!(!pair.loops[0].dataplane.is_drained());
    pair.carry_from(0);
    for server in 0..2 {
        pair.loops[1].server_gets(server);
        pair.loops[1].server_says(server, "DELETED\r\n");
    }
    pair.carry_from(1);
    assert_eq!(pair.loops[0].client_gets(client), "DELETED\r\n");
    pair.loops[0].dataplane.handle_client_closed(client);
    assert!(pair.loops[0].dataplane.is_drained());
}

#[test]
fn a_mailed_write_waits_for_a_key_that_is_held_and_keeps_its_place() {
    let mut pair = Pair::new(2, 2);
    let key = key_of_the_other(0);
    let (theirs, ours) = (pair.loops[1].client(), pair.loops[0].client());
    let decider = pair.loops[1].router.primary(key.as_bytes());
    pair.loops[1].send(theirs, &format!("append {key} 0 0 1\r\na\r\n"));
    assert_eq!(pair.loops[1].server_gets(decider), format!("append {key} 0 0 1\r\na\r\n"));
    pair.loops[0].send(ours, &format!("set {key} 0 0 1\r\nx\r\nincr {key} 1\r\ndelete {key}\r\n"));
    assert_eq!(pair.carry_from(0), 3);
    assert_eq!(
        [0, 1].map(|server| pair.loops[1].server_gets(server)).concat(),
        "",
        "the followers have not been sent it yet"
    );
    pair.loops[1].server_says(decider, "STORED\r\n");
    let gets = [0, 1].map(|server| pair.loops[1].server_gets(server));
    // The follower hears of the first write before the others do; the increment holds the key again, so the delete waits.
    let set = format!("set {key} 0 0 1\r\nx\r\n");
    assert_eq!(gets[decider], format!("{set}incr {key} 1\r\n"));
    assert!(gets[1 - decider].ends_with(&set) && gets[1 - decider] != set, "{gets:?}");
    pair.loops[1].server_says(1 - decider, "STORED\r\nSTORED\r\n");
    pair.loops[1]
        .server_says(decider, "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
    for server in 0..2 {
        assert_eq!(pair.loops[1].server_gets(server), format!("delete {key}\r\n"));
        pair.loops[1].server_says(server, "DELETED\r\n");
    }
    assert_eq!(pair.carry_from(1), 3);
    assert_eq!(
        pair.loops[0].client_gets(ours),
        "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\nDELETED\r\n"
    );
    assert_eq!(pair.loops[1].client_gets(theirs), "STORED\r\n");
    assert!(pair.is_quiet());
}

/// Each was sent after its time was up, and its server blamed for it: it was not read for any key, and then the next one was not.
#[test]
fn a_mailed_write_whose_time_is_up_in_its_keys_line_asks_nobody_and_no_server_is_blamed() {
    let mut pair = Pair::new(2, 2);
    let client = pair.loops[0].client();
    let key = key_of_the_other(0);
    let decider = pair.loops[1].router.primary(key.as_bytes());
    let incr = format!("incr {key} 1\r\n");
    pair.loops[0].send(client, &incr.repeat(5));
    assert_eq!(pair.carry_from(0), 5);
    assert_eq!(pair.loops[1].server_gets(decider), incr);
    pair.pass(TIMEOUT - MS);
    pair.loops[1].server_says(decider, "1\r\n");
    assert_eq!(pair.loops[1].server_gets(1 - decider), incr);
    pair.loops[1].server_says(1 - decider, "1\r\n");
    // It has waited for nearly as long as a server may take. That is not the server's fault.
    assert_eq!(pair.loops[1].server_gets(decider), incr);
    pair.pass(2 * MS);
    pair.loops[1].server_says(decider, "2\r\n");
    assert_eq!(pair.loops[1].server_gets(decider), "");
    assert_eq!(pair.loops[1].server_gets(1 - decider), incr);
    pair.loops[1].server_says(1 - decider, "2\r\n");
    assert_eq!(pair.carry_from(1), 5);
    let timeout = format!("SERVER_ERROR timeout s:{}\r\n", decider + 1);
    assert_eq!(pair.loops[0].client_gets(client), format!("1\r\n2\r\n{}", timeout.repeat(3)));
    let counters = pair.loops[1].report().counters;
    assert_eq!((counters.writes_held, counters.writes_overdue), (4, 3));
    assert_eq!((counters.server_timeouts, counters.journal_keys, counters.replicas_invalidated), (0, 0, 0));
    assert_eq!(pair.loops[0].report().counters.requests_failed_timeout, 3);
    assert!(pair.is_quiet());
}

/// It was answered when its turn came.
#[test]
fn a_mailed_write_in_its_keys_line_is_answered_when_its_time_is_up_whoever_stands_before_it() {
    let mut pair = Pair::new(2, 2);
    let client = pair.loops[0].client();
    let key = key_of_the_other(0);
    let decider = pair.loops[1].router.primary(key.as_bytes());
    let incr = format!("incr {key} 1\r\n");
    pair.loops[0].send(client, &incr.repeat(2));
    pair.carry_from(0);
    assert_eq!(pair.loops[1].server_gets(decider), incr);
    pair.pass(10 * MS);
    pair.loops[0].send(client, &incr);
    pair.carry_from(0);
    pair.pass(TIMEOUT - 11 * MS);
    pair.loops[1].server_says(decider, "1\r\n");
    assert_eq!(pair.loops[1].server_gets(1 - decider), incr);
    pair.loops[1].server_says(1 - decider, "1\r\n");
    pair.pass(MS);
    assert_eq!(pair.loops[1].server_gets(decider), incr, "the second one's turn has come in time");
    assert_eq!(pair.carry_from(1), 1);
    assert_eq!(pair.loops[1].dataplane.poll_timeout(), Some(pair.loops[1].now.plus(10 * MS)));
    pair.pass(10 * MS - 1);
    assert_eq!(pair.carry_from(1), 0);
    pair.pass(1);
    assert_eq!(pair.carry_from(1), 1, "the third one's answer");
    pair.loops[1].server_says(decider, "2\r\n");
    assert_eq!(pair.loops[1].server_gets(decider), "");
    assert_eq!(pair.loops[1].server_gets(1 - decider), incr);
    pair.loops[1].server_says(1 - decider, "2\r\n");
    assert_eq!(pair.carry_from(1), 1);
    let timeout = format!("SERVER_ERROR timeout s:{}\r\n", decider + 1);
    assert_eq!(pair.loops[0].client_gets(client), format!("1\r\n2\r\n{timeout}"));
    let counters = pair.loops[1].report().counters;
    assert_eq!((counters.writes_held, counters.writes_overdue, counters.server_timeouts), (2, 1, 0));
    assert!(pair.is_quiet());
}

#[test]
fn who_sends_a_value_that_is_too_large_hears_if_the_old_one_was_not_erased_in_time() {
    let mut config = Config::default();
    config.limits.value_bytes_max = 3;
    let mut pair = Pair::with(2, 2, &config);
    let client = pair.loops[0].client();
    let key = key_of_the_other(0);
    pair.loops[0].send(client, &format!("set {key} 0 0 4\r\nabcd\r\n"));
    pair.pass(TIMEOUT);
    assert_eq!(pair.carry_from(0), 1);
    assert!(!pair.loops[1].dataplane.has_server_output());
    assert_eq!(pair.carry_from(1), 1);
    let reply = pair.loops[0].client_gets(client);
    assert!(reply.starts_with("SERVER_ERROR timeout s:"), "{reply}");
    assert!(pair.is_quiet());
}

#[test]
fn mail_that_comes_when_its_time_is_up_asks_nobody() {
    let mut pair = Pair::new(2, 2);
    let client = pair.loops[0].client();
    let key = key_of_the_other(0);
    pair.loops[0].send(client, &format!("set {key} 0 0 1\r\nx\r\nincr {key} 1 noreply\r\nmn\r\n"));
    pair.pass(TIMEOUT);
    assert_eq!(pair.carry_from(0), 2);
    assert!(!pair.loops[1].dataplane.has_server_output());
    assert_eq!(pair.carry_from(1), 2);
    let decider = pair.loops[1].router.primary(key.as_bytes());
    let timeout = format!("SERVER_ERROR timeout s:{}\r\n", decider + 1);
    assert_eq!(pair.loops[0].client_gets(client), format!("{timeout}MN\r\n"));
    let counters = pair.loops[1].report().counters;
    assert_eq!((counters.writes_overdue, counters.server_timeouts, counters.journal_keys), (2, 0, 0));
    assert!(pair.is_quiet());
}
