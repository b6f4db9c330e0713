//! One dataplane between clients and servers, and everything that can happen around it.
//!
//! Input: records that are separated by `|`. The first says what the world is like, each other one what happens next; `script`
//! lists them. After each the driver takes as many turns as it needs.
//!
//! ```text
//!   21a|>0set a 0 0 1\r\nx\r\n|>0get a\r\n        2 servers, 1 replica, servers that answer at once; client 0 sends two requests
//!   21|>0get a b\r\n|<0END\r\n|t6                 server 0 says `END`, server 1 nothing, and 500 ms pass
//! ```
//!
//! Checked at every turn: nothing panics. No client is sent anything before it has sent a whole line. What waits for a client or a server
//! stays within its limit. The dataplane comes to rest, and wants to be woken in the future. At the end, with servers that are silent:
//! every session can be drained within its deadlines, nothing is left anywhere, and every request was counted once.

mod lent;
mod script;
mod world;

use crate::input::split;
use script::{Action, Setting};
use world::World;

/// Runs one input.
pub fn check(input: &[u8]) {
    run(input, false);
}

/// Runs one input with clients that are served through lent sessions, as the threaded engines serve them (`lent`).
pub fn check_lent(input: &[u8]) {
    run(input, true);
}

fn run(input: &[u8], is_lent: bool) {
    let (setting, mut records) = split(input, b'|');
    let mut world = World::new(&Setting::parse(setting), is_lent);
    while !records.is_empty() {
        let (record, rest) = split(records, b'|');
        records = rest;
        if let Some(action) = Action::parse(record) {
            world.act(action);
        }
    }
    world.end();
}
