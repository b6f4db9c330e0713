//! Replies that are not copied, and those that are refused before they are there.

use crate::world::{World, slot, unjoined};
use weir_dataplane::{Config, SessionId};

const READ_BYTES: usize = 256 << 10;

fn value(key: &str, len: usize) -> String {
    let data: String = key.chars().cycle().take(len).collect();
    format!("VALUE {key} 0 {len}\r\n{data}\r\n")
}

impl World {
    /// A server answers, and is read as a driver reads.
    fn server_streams(&mut self, server: usize, reply: &str) {
        for piece in reply.as_bytes().chunks(READ_BYTES) {
            self.dataplane.handle_server_bytes(slot(server), piece, self.now);
            self.turn();
        }
    }

    /// All that leaves for one client, of which the kernel takes this much at once.
    fn client_streams(&mut self, client: SessionId, at_once: usize) -> String {
        let mut bytes = Vec::new();
        while !self.dataplane.client_output(client).is_empty() {
            let output = self.dataplane.client_output(client);
            let count = output.len().min(at_once);
            let is_short = count < output.len();
            bytes.extend_from_slice(&output[..count]);
            self.dataplane.handle_client_written(client, count, self.now);
            if is_short {
                self.dataplane.handle_client_writable(client);
            }
            self.turn();
        }
        String::from_utf8(bytes).expect("text")
    }
}

#[test]
fn large_replies_and_small_ones_come_out_in_order() {
    let mut world = World::with(2, 1, unjoined());
    let client = world.client();
    let (one, other) = (world.keys_on(0, 3), world.keys_on(1, 2));
    let sizes = [1_000_000, 300_000, 5, 0];
    for at_once in [100_000, usize::MAX] {
        world.send(
            client,
            &format!(
                "get {}\r\nget {}\r\nget {} {} {}\r\nget {}\r\n",
                one[0], other[0], one[1], other[1], one[2], other[0]
            ),
        );
        let replies = [
            value(&one[0], sizes[0]) + "END\r\n",
            value(&other[0], sizes[1]) + "END\r\n",
            value(&one[1], sizes[1]) + &value(&other[1], sizes[0]) + &value(&one[2], sizes[2]) + "END\r\n",
            value(&other[0], sizes[3]) + "END\r\n",
        ];
        world.server_gets(0);
        world.server_gets(1);
        // What is to stand behind comes first.
        let second = value(&other[1], sizes[0]) + "END\r\n" + &replies[3];
        world.server_streams(1, &(replies[1].clone() + &second));
        let first = value(&one[1], sizes[1]) + &value(&one[2], sizes[2]) + "END\r\n";
        world.server_streams(0, &(replies[0].clone() + &first));
        assert!(world.client_streams(client, at_once) == replies.concat(), "{at_once}");
        assert!(world.dataplane.is_quiet(), "nothing is left");
    }
}

#[test]
fn what_a_client_may_not_have_is_refused_as_soon_as_its_server_says_how_long_it_is() {
    let config = Config { session_buffer_bytes_max: 1 << 20, ..unjoined() };
    let mut world = World::with(1, 1, config);
    let clients = [world.client(), world.client()];
    world.send(clients[0], "get a b c\r\n");
    world.send(clients[1], "get d\r\nget e\r\n");
    world.server_gets(0);
    let long = value("a", 700_000) + &value("b", 700_000) + &value("c", 700_000) + "END\r\n";
    let (begin, rest) = long.split_at(800_000);
    world.server_streams(0, begin);
    assert_eq!(world.client_gets(clients[0]), "SERVER_ERROR buffer-full client\r\n");
    let behind = [value("d", 300_000) + "END\r\n", value("e", 3) + "END\r\n"].concat();
    world.server_streams(0, &(rest.to_owned() + &behind));
    assert!(world.client_streams(clients[1], usize::MAX) == behind);
    let counters = world.report().counters;
    assert_eq!((counters.session_refusals_full, counters.server_violations), (1, 0));
    assert!(world.dataplane.is_quiet(), "nothing is left");
}

#[test]
fn what_nobody_waits_for_is_not_kept() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.send(client, "get a b c\r\n");
    world.server_gets(0);
    world.dataplane.handle_client_closed(client);
    world.pass(crate::world::TIMEOUT);
    let long = value("a", 5_000_000) + &value("b", 100_000) + &value("c", 5_000_000) + "END\r\n";
    let mut most = 0;
    for piece in long.as_bytes().chunks(READ_BYTES) {
        world.dataplane.handle_server_bytes(slot(0), piece, world.now);
        world.turn();
        most = most.max(world.dataplane.budget().held());
    }
    assert!(most <= 2 * READ_BYTES, "{most}");
    assert!(world.dataplane.is_quiet(), "nothing is left");
}

#[test]
fn a_client_that_leaves_much_unread_is_not_read() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.send(client, "get a\r\n");
    world.server_gets(0);
    let reply = value("a", 2_000_000) + "END\r\n";
    world.server_streams(0, &reply);
    world.dataplane.handle_client_written(client, 1000, world.now);
    world.send(client, "get b\r\n");
    assert!(!world.dataplane.wants_read(client));
    assert_eq!(world.server_gets(0), "");
    world.dataplane.handle_client_writable(client);
    assert!(world.client_streams(client, usize::MAX) == reply[1000..]);
    assert_eq!(world.server_gets(0), "get b\r\n", "it has read");
}
