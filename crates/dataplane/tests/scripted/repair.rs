//! Copies that reads found missing, put back in the order of their key's writes.

use crate::world::{TIMEOUT, World};
use std::{iter, sync::Arc};
use weir_dataplane::{Config, Freshness, LoopId, ReadPolicy, ReadRepair, SessionId, owner_of};

fn repairing() -> Config {
    Config { read_policy: ReadPolicy::Spread, read_repair: ReadRepair::On, ..Config::default() }
}

/// A key whose decider is server 0 and whose other copy should be on server 1.
struct Missing {
    world: World,
    client: SessionId,
    key: String,
}

impl Missing {
    fn new() -> Self {
        let mut world = World::with(2, 2, repairing());
        let (client, key) = (world.client(), world.key_on(0));
        Self { world, client, key }
    }

    /// A read that finds the key at the decider alone. Returns what the decider is asked then.
    fn read(&mut self) -> String {
        let Self { world, client, key } = self;
        let value = format!("VALUE {key} 7 2\r\nab\r\nEND\r\n");
        world.find_missing(*client, key, &value);
        world.server_gets(0)
    }

    fn question(&self) -> String {
        format!("mg {} k v f t\r\n", self.key)
    }

    /// The decider's answer to the question.
    fn answer(&self, marks: &str) -> String {
        format!("VA 2 k{} f7 {marks}\r\nab\r\n", self.key)
    }

    fn copy(&self) -> String {
        format!("ms {} 2 ME F7\r\nab\r\n", self.key)
    }

    /// Repaired, dropped, failed.
    fn counts(&self) -> [u64; 3] {
        let counters = self.world.report().counters;
        [counters.reads_repaired, counters.repairs_dropped, counters.repairs_failed]
    }
}

impl World {
    /// Reads until server 1 is asked, which has nothing; the client is answered what server 0 says.
    fn find_missing(&mut self, client: SessionId, key: &str, value: &str) {
        let get = format!("get {key}\r\n");
        for _ in 0..2 {
            self.send(client, &get);
            if self.server_gets(1) == get {
                self.server_says(1, "END\r\n");
                assert_eq!(self.server_gets(0), get);
                assert_eq!(self.hears(client, 0, value), value);
                return;
            }
            assert_eq!(self.server_gets(0), get);
            assert_eq!(self.hears(client, 0, value), value);
        }
        panic!("reads are spread over two servers");
    }
}

#[test]
fn a_missing_copy_is_put_back_as_the_decider_holds_it() {
    let mut it = Missing::new();
    assert_eq!(it.read(), it.question());
    it.world.server_says(0, &it.answer("t-1"));
    assert_eq!(it.world.server_gets(1), it.copy());
    it.world.server_says(1, "HD\r\n");
    assert_eq!(it.counts(), [1, 0, 0]);
    assert!(it.world.dataplane.is_quiet());
    // Nobody has asked for it, so it is no request; and no client waits for it.
    assert_eq!(
        it.world.report().counters.requests,
        it.world.report().timing.operations().iter().map(|(_, of)| of.requests).sum()
    );
}

#[test]
fn nothing_is_asked_where_it_is_not_wanted() {
    let mut it = Missing::new();
    it.world = World::with(2, 2, Config { read_repair: ReadRepair::Off, ..repairing() });
    it.client = it.world.client();
    assert_eq!(it.read(), "");
    assert!(it.world.dataplane.is_quiet());
}

#[test]
fn a_write_that_begins_meanwhile_ends_the_repair() {
    for write in ["set KEY 0 0 1\r\nx\r\n", "delete KEY\r\n", "incr KEY 1\r\n"] {
        let mut it = Missing::new();
        it.read();
        let write = write.replace("KEY", &it.key);
        it.world.send(it.client, &write);
        it.world.server_says(0, &it.answer("t-1"));
        // A write that the decider is asked for alone is not sent to the other yet.
        let other = if write.starts_with("incr") { String::new() } else { write };
        assert_eq!(it.world.server_gets(1), other, "the old value comes neither before nor behind it");
        assert_eq!(it.counts(), [0, 1, 0]);
    }
}

#[test]
fn nothing_is_repaired_while_a_write_is_not_answered_by_all() {
    let mut world = World::with(3, 3, repairing());
    let (writer, key) = (world.client(), world.key_on(0));
    world.send(writer, &format!("set {key} 0 0 1\r\nx\r\n"));
    (0..3).for_each(|server| assert_ne!(world.server_gets(server), ""));
    world.server_says(0, "STORED\r\n");
    world.server_says(1, "STORED\r\n");
    let (get, value) = (format!("get {key}\r\n"), format!("VALUE {key} 0 1\r\nx\r\nEND\r\n"));
    for _ in 0..3 {
        let client = world.client();
        world.send(client, &get);
        // Server 2 has not answered the write, and owes whatever it is asked.
        world.server_gets(2);
        if world.server_gets(1) == get {
            world.server_says(1, "END\r\n");
        }
        if world.server_gets(0) == get {
            assert_eq!(world.hears(client, 0, &value), value);
        }
    }
    assert_eq!(world.server_gets(0), "");
    assert_eq!(world.report().counters.repairs_dropped, 1);
}

#[test]
fn a_copy_that_is_not_confirmed_is_deleted_behind_it_before_the_server_is_read() {
    let mut it = Missing::new();
    it.read();
    it.world.server_says(0, &it.answer("t-1"));
    assert_eq!(it.world.server_gets(1), it.copy());
    it.world.pass(TIMEOUT);
    assert_eq!(it.counts(), [0, 0, 1]);
    assert_eq!(it.world.report().servers[1].journal, 1);
    assert_eq!(it.world.server_gets(1), format!("delete {}\r\n", it.key));
    for _ in 0..2 {
        it.world.send(it.client, &format!("get {}\r\n", it.key));
        assert_eq!(it.world.server_gets(1), "", "nothing is read there");
    }
    it.world.server_says(1, "HD\r\nDELETED\r\n");
    assert_eq!(it.world.report().servers[1].unread, None);
}

#[test]
fn a_decider_that_says_nothing_lacks_nothing() {
    let mut it = Missing::new();
    it.read();
    it.world.pass(TIMEOUT);
    assert_eq!(it.counts(), [0, 0, 1]);
    assert_eq!(it.world.report().servers[0].unread, None);
    // Its answer is late, and of no use.
    it.world.server_says(0, &it.answer("t-1"));
    assert_eq!(it.world.server_gets(1), "");
    assert!(it.world.dataplane.is_quiet());
}

#[test]
fn a_decider_that_may_not_be_read_any_more_is_not_believed() {
    let freshness = Arc::<Freshness>::default();
    let mut it = Missing::new();
    it.world = World::sharing(2, 2, repairing(), Arc::clone(&freshness));
    it.client = it.world.client();
    it.read();
    // Another dataplane fears that it lacks a write.
    let mut other = World::sharing(2, 2, repairing(), freshness);
    let writer = other.client();
    other.send(writer, &format!("set {} 0 0 1\r\nx\r\n", it.key));
    assert_ne!([other.server_gets(0), other.server_gets(1)], [""; 2]);
    other.server_says(1, "STORED\r\n");
    other.pass(TIMEOUT);
    it.world.server_says(0, &it.answer("t-1"));
    assert_eq!((it.world.server_gets(1).as_str(), it.counts()), ("", [0, 1, 0]));
}

#[test]
fn what_is_there_meanwhile_stays() {
    let mut it = Missing::new();
    it.read();
    it.world.server_says(0, &it.answer("t60"));
    assert_eq!(it.world.server_gets(1), format!("ms {} 2 ME F7 T59\r\nab\r\n", it.key));
    it.world.server_says(1, "NS\r\n");
    assert_eq!(it.counts(), [0; 3]);
    assert!(it.world.dataplane.is_quiet());
}

#[test]
fn an_item_that_is_gone_or_about_to_go_is_not_copied() {
    for (answer, counts) in [("EN kKEY\r\n", [0; 3]), ("VA 1 kKEY f0 t1\r\nx\r\n", [0, 1, 0])] {
        let mut it = Missing::new();
        it.read();
        it.world.server_says(0, &answer.replace("KEY", &it.key));
        assert_eq!((it.world.server_gets(1).as_str(), it.counts()), ("", counts));
        assert!(it.world.dataplane.is_quiet());
    }
}

#[test]
fn a_stale_item_is_not_copied_and_its_win_is_left_to_a_client() {
    let mut it = Missing::new();
    it.read();
    it.world.server_says(0, &it.answer("t30 X W"));
    assert_eq!(it.world.server_gets(0), format!("md {} I\r\n", it.key), "the next who asks wins");
    assert_eq!(it.world.server_gets(1), "");
    it.world.server_says(0, "HD\r\n");
    assert_eq!(it.counts(), [0, 1, 0]);
    assert!(it.world.dataplane.is_quiet());
    // Somebody else has won: there is nothing to be given back.
    let mut it = Missing::new();
    it.read();
    it.world.server_says(0, &it.answer("t30 X Z"));
    assert_eq!([it.world.server_gets(0), it.world.server_gets(1)], [String::new(), String::new()]);
}

#[test]
fn a_server_without_meta_commands_is_harmless() {
    let mut it = Missing::new();
    it.read();
    it.world.server_says(0, "ERROR\r\n");
    assert_eq!((it.world.server_gets(1).as_str(), it.counts()), ("", [0, 0, 1]));
    let mut it = Missing::new();
    it.read();
    it.world.server_says(0, &it.answer("t-1"));
    it.world.server_gets(1);
    it.world.server_says(1, "SERVER_ERROR out of memory storing object\r\n");
    assert_eq!(it.counts(), [0, 0, 1]);
    assert_eq!(it.world.report().servers[1].unread, None, "it holds nothing");
    assert!(it.world.dataplane.is_quiet());
}

#[test]
fn a_long_value_is_not_copied() {
    let mut it = Missing::new();
    let value = "x".repeat(64 << 10);
    let found = format!("VALUE {} 0 {}\r\n{value}\r\nEND\r\n", it.key, value.len());
    it.world.find_missing(it.client, &it.key, &found);
    assert_eq!((it.world.server_gets(0).as_str(), it.counts()), ("", [0, 1, 0]));
}

#[test]
fn no_more_than_64_are_under_way() {
    let mut it = Missing::new();
    let keys = it.world.keys_on(0, 140);
    let values = |asked: &str| {
        let keys = asked.split_whitespace().skip(1);
        keys.map(|key| format!("VALUE {key} 0 1\r\nx\r\n")).collect::<String>() + "END\r\n"
    };
    it.world.send(it.client, &format!("get {}\r\n", keys.join(" ")));
    let [first, second] = [it.world.server_gets(0), it.world.server_gets(1)];
    assert_eq!(second.split_whitespace().count(), 1 + 70);
    it.world.server_says(0, &values(&first));
    it.world.server_says(1, "END\r\n");
    let again = it.world.server_gets(0);
    assert_eq!(again.split_whitespace().count(), 1 + 70);
    it.world.server_says(0, &values(&again));
    assert_eq!(it.world.server_gets(0).lines().filter(|line| line.starts_with("mg ")).count(), 64);
    assert_eq!(it.counts(), [0, 6, 0]);
    assert_eq!(it.world.client_gets(it.client).matches("VALUE ").count(), 140, "nobody waits for repairs");
}

#[test]
fn the_owner_of_a_key_repairs_it() {
    let freshness = Arc::<Freshness>::default();
    let world = |index| {
        let config = Config { loop_index: LoopId::from_index(index), loop_count: 2, ..repairing() };
        World::sharing(2, 2, config, Arc::clone(&freshness))
    };
    let (mut reader, mut owner) = (world(0), world(1));
    let client = reader.client();
    let key = reader
        .keys_on(0, 50)
        .into_iter()
        .find(|key| owner_of(key.as_bytes(), 2) == LoopId::from_index(1))
        .expect("half are");
    reader.find_missing(client, &key, &format!("VALUE {key} 7 2\r\nab\r\nEND\r\n"));
    assert_eq!(reader.server_gets(0), "");
    let carry = |from: &mut World, to: &mut World| {
        let mail: Vec<_> = iter::from_fn(|| from.dataplane.poll_mail()).collect();
        let count = mail.len();
        mail.into_iter().for_each(|(_, mail)| to.dataplane.handle_mail(mail, to.now));
        count
    };
    assert_eq!(carry(&mut reader, &mut owner), 1);
    assert_eq!(owner.server_gets(0), format!("mg {key} k v f t\r\n"));
    owner.server_says(0, &format!("VA 2 k{key} f7 t-1\r\nab\r\n"));
    assert_eq!(owner.server_gets(1), format!("ms {key} 2 ME F7\r\nab\r\n"));
    owner.server_says(1, "HD\r\n");
    assert!(!reader.dataplane.is_quiet(), "it counts what is under way");
    assert_eq!(carry(&mut owner, &mut reader), 1);
    assert!(reader.dataplane.is_quiet() && owner.dataplane.is_quiet());
    assert_eq!(owner.report().counters.reads_repaired, 1);
}
