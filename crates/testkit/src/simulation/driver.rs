//! What an event loop does for the dataplane, with links in the place of sockets.

use rand::Rng;
use weir_dataplane::{Event, SessionId, Slot};

use super::event_loop::Loop;
use super::server::{Dead, Wire};
use super::tables;
use super::world::{Happening, World};

impl World {
    /// What every loop does between two waits, one after the other.
    pub(super) fn turn(&mut self) {
        for home in 0..self.loops.len() {
            self.turn_of(home);
        }
        let now = self.now();
        let reported = self.crew.as_mut().map_or(Ok(()), |crew| crew.end_turn(now));
        self.must(reported);
    }

    fn turn_of(&mut self, home: usize) {
        let now = self.now();
        self.loops[home].dataplane.handle_time(now);
        self.carry_out_events(home);
        self.crew_works();
        self.see_all();
        self.write_servers(home);
        while let Some(session) = self.loops[home].dataplane.poll_client_output() {
            self.write_client(home, session);
        }
        self.carry_out_events(home);
        self.crew_works();
        self.send_mail(home);
        self.note_silent(home);
        self.is_connected_as_wanted(home);
        self.serves_what_is_lent(home);
        let is_kept = self.loops[home].end_turn(now);
        self.must(is_kept);
    }

    /// The driver has no connection, and makes none, but to servers that are to be connected. One that has none is not up: it is tried
    /// again later, or was not needed yet.
    fn is_connected_as_wanted(&self, home: usize) {
        let Loop { dataplane, slots, .. } = &self.loops[home];
        let open = || slots.iter().flatten().filter_map(|slot| *slot);
        let is_wanted = |slot: Slot| dataplane.connected_servers().any(|wanted| wanted == slot);
        let is_open = |slot: Slot| open().any(|it| it == slot);
        let is_right = open().all(is_wanted)
            && dataplane.connected_servers().all(|slot| is_open(slot) || !dataplane.server_is_up(slot));
        self.ensure(is_right, || {
            let wanted: Vec<_> = dataplane.connected_servers().collect();
            format!("loop {home} is connected to {:?}, and wants {wanted:?}", open().collect::<Vec<_>>())
        });
    }

    /// Where nothing lingers after its answer, what is in service of lent sessions is what was handed in and is not answered.
    fn serves_what_is_lent(&self, home: usize) {
        let Some(crew) = self.crew.as_ref().filter(|_| self.scenario.replicas == 1) else { return };
        let (found, expected) = (self.loops[home].dataplane.in_service(), crew.in_service());
        self.ensure(found == expected, || {
            format!("{found} requests are in service, {expected} were handed in")
        });
    }

    /// Writes to every server for which there is something; whether there is any is said before.
    fn write_servers(&mut self, home: usize) {
        let now = self.now();
        let is_any = self.loops[home].dataplane.has_server_output();
        let mut last = None;
        while let Some(slot) = self.loops[home].dataplane.poll_server_output(last, now) {
            self.write_server(home, slot);
            last = Some(slot);
        }
        self.ensure(is_any == last.is_some(), || {
            format!("there is something to write to servers: {is_any}, the last was {last:?}")
        });
    }

    /// Which connections are silent and owe the kernel nothing when a turn ends.
    fn note_silent(&mut self, home: usize) {
        let limit = self.scenario.config.mark_down_timeouts;
        let it = &mut self.loops[home];
        let is_silent = |slot: Slot| {
            limit > 0
                && it.dataplane.late_in_a_row(slot) >= limit
                && it.dataplane.server_output(slot).is_empty()
        };
        it.silent = it.slots.iter().map(|of| of[0].filter(|slot| is_silent(*slot))).collect();
    }

    /// Where keys have one server, it is asked nothing while it is silent, but whether it still is.
    fn silent_servers_are_left_alone(&self, (home, slot, server): (usize, Slot, usize), output: &[u8]) {
        let it = &self.loops[home];
        let limit = self.scenario.config.mark_down_timeouts;
        let is_silent = it.silent[server] == Some(slot) && it.dataplane.late_in_a_row(slot) >= limit;
        let is_alone = self.scenario.replicas == 1 && self.scenario.moves == 0 && self.scenario.reloads == 0;
        self.ensure(!is_silent || !is_alone || output == b"version\r\n", || {
            format!("silent server {server} is asked {:?}", String::from_utf8_lossy(output))
        });
    }

    /// Every message ends with a line ending, also one with a value. Of one that was begun a single byte may be left.
    fn messages_end_where_it_is_said(&self, (home, slot): (usize, Slot), output: &[u8]) {
        let mut before = 0;
        for end in self.loops[home].dataplane.server_message_ends(slot) {
            let message = output.get(before..end.min(output.len())).unwrap_or_default();
            let is_end = end > before && (end > output.len() || message.ends_with(b"\n"));
            self.ensure(is_end, || format!("no message ends at {end}, behind one that ends at {before}"));
            before = end.min(output.len());
        }
    }

    /// What a turn has for another loop goes there in one batch.
    fn send_mail(&mut self, home: usize) {
        let mut batches: Vec<Vec<_>> = self.loops.iter().map(|_| Vec::new()).collect();
        while let Some((to, mail)) = self.loops[home].dataplane.poll_mail() {
            batches[to.index()].push(mail);
        }
        for (to, batch) in batches.into_iter().enumerate().filter(|(_, batch)| !batch.is_empty()) {
            let (now_ns, conduct) = (self.now_ns, self.scenario.conduct);
            let at_ns = self.loops[home].mail[to].arrival(now_ns, conduct, &mut self.rng);
            self.happens(at_ns, Happening::Mail(to, batch));
        }
    }

    /// What the loop asks for next. [`Dataplane::has_events`](weir_dataplane::Dataplane::has_events) says before whether there is anything.
    fn poll_event(&mut self, home: usize) -> Option<Event> {
        let dataplane = &mut self.loops[home].dataplane;
        let (is_promised, event) = (dataplane.has_events(), dataplane.poll_event());
        let kept = event.is_some() == is_promised;
        self.must(
            kept.then_some(())
                .ok_or_else(|| format!("an event is promised: {is_promised}, and reported: {event:?}")),
        );
        event
    }

    pub(super) fn carry_out_events(&mut self, home: usize) {
        let Loop { reported, dataplane, .. } = &mut self.loops[home];
        let taken = reported.take(dataplane);
        self.must(taken);
        while let Some(event) = self.poll_event(home) {
            self.note(3, format!("{home} {event:?}").as_bytes());
            match event {
                Event::Connect(slot) => self.connect(home, slot),
                Event::Disconnect(slot) => self.disconnect(home, slot),
                Event::Close(session) => self.close_client(home, session),
                // Its requests tell it as well.
                Event::Stats { request, .. } => {
                    let delay_ns = self.rng.random_range(0..=self.scenario.conduct.delay_max_ns);
                    self.happens(self.now_ns + delay_ns, Happening::Stats(home, request));
                }
                Event::Resume(session) => {
                    if let Some(client) = self.client_of(home, session) {
                        self.happens(self.now_ns, Happening::Readable(client));
                    }
                }
            }
        }
    }

    fn write_server(&mut self, home: usize, slot: Slot) {
        let (conduct, now_ns, now) = (self.scenario.conduct, self.now_ns, self.now());
        let dataplane = &self.loops[home].dataplane;
        let server = tables::number_of(dataplane.server(slot));
        let output = dataplane.server_output(slot).to_vec();
        let Some((_, line)) = self.line_of(home, slot) else { return };
        self.silent_servers_are_left_alone((home, slot, server), &output);
        self.messages_end_where_it_is_said((home, slot), &output);
        let count = self.accepted(output.len());
        self.note(4, &output[..count]);
        let wire = Wire { server, line, attempt: self.servers[server].attempt(line) };
        let pieces =
            self.servers[server].way_there(line).carry(&output[..count], now_ns, conduct, &mut self.rng);
        if self.servers[server].dead(line) != Dead::Everything {
            for (at_ns, piece) in pieces {
                self.happens(at_ns, Happening::ToServer(wire, piece));
            }
        }
        self.loops[home].dataplane.handle_server_written(slot, count, now);
        if count < output.len() {
            let delay_ns = self.rng.random_range(0..=conduct.delay_max_ns);
            self.happens(now_ns + delay_ns, Happening::ServerWritable(wire));
        }
    }

    fn write_client(&mut self, home: usize, session: SessionId) {
        // What is written to lent sessions is written by who has lent them.
        let Some(client) = self.client_of(home, session).filter(|_| self.crew.is_none()) else { return };
        let now = self.now();
        let length = self.loops[home].dataplane.client_output(session).len();
        let count = self.accepted(length);
        let output = self.loops[home].dataplane.client_output(session)[..count].to_vec();
        self.note(5, &output);
        self.clients[client].note_written(count);
        self.loops[home].dataplane.handle_client_written(session, count, now);
        if count < length {
            let delay_ns = self.rng.random_range(0..=self.scenario.conduct.delay_max_ns * 3);
            self.happens(self.now_ns + delay_ns, Happening::ClientWritable(home, session));
        }
    }

    /// How much of a write the kernel takes.
    pub(super) fn accepted(&mut self, length: usize) -> usize {
        if self.rng.random_bool(self.scenario.short_write) {
            self.rng.random_range(0..=length)
        } else {
            length
        }
    }
}
