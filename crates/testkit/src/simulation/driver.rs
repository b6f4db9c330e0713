//! What an event loop does for the dataplane, with links in the place of sockets.

use rand::Rng;
use weir_dataplane::{Event, SessionId};

use super::tables;
use super::world::{Happening, World};

impl World {
    /// What an event loop does between two waits.
    pub(super) fn turn(&mut self) {
        self.dataplane.handle_time(self.now());
        self.carry_out_events();
        self.see_all();
        let mut last = None;
        while let Some(slot) = self.dataplane.poll_server_output(last, self.now()) {
            self.write_server(slot);
            last = Some(slot);
        }
        while let Some(session) = self.dataplane.poll_client_output() {
            self.write_client(session);
        }
        self.carry_out_events();
    }

    fn carry_out_events(&mut self) {
        while let Some(event) = self.dataplane.poll_event() {
            self.note(3, format!("{event:?}").as_bytes());
            match event {
                Event::Connect(slot) => self.connect(slot),
                Event::Disconnect(slot) => self.disconnect(slot),
                Event::Close(session) => self.close_client(session),
                Event::Stats { request, .. } => {
                    let delay_ns = self.rng.random_range(0..=self.scenario.conduct.delay_max_ns);
                    self.happens(self.now_ns + delay_ns, Happening::Stats(request));
                }
                Event::Resume(session) => {
                    if let Some(client) = self.client_of(session) {
                        self.happens(self.now_ns, Happening::Readable(client));
                    }
                }
            }
        }
    }

    fn write_server(&mut self, slot: usize) {
        let server = tables::number_of(self.dataplane.server(slot));
        let output = self.dataplane.server_output(slot).to_vec();
        let count = self.accepted(output.len());
        self.note(4, &output[..count]);
        let (attempt, conduct, now_ns) = (self.servers[server].attempt, self.scenario.conduct, self.now_ns);
        let pieces = self.servers[server].to_server.carry(&output[..count], now_ns, conduct, &mut self.rng);
        for (at_ns, piece) in pieces {
            self.happens(at_ns, Happening::ToServer(server, attempt, piece));
        }
        self.dataplane.handle_server_written(slot, count, self.now());
        if count < output.len() {
            let delay_ns = self.rng.random_range(0..=conduct.delay_max_ns);
            self.happens(now_ns + delay_ns, Happening::ServerWritable(server, attempt));
        }
    }

    fn write_client(&mut self, session: SessionId) {
        let Some(client) = self.client_of(session) else { return };
        let length = self.dataplane.client_output(session).len();
        let count = self.accepted(length);
        let output = self.dataplane.client_output(session)[..count].to_vec();
        self.note(5, &output);
        self.clients[client].note_written(count);
        self.dataplane.handle_client_written(session, count, self.now());
        if count < length {
            let delay_ns = self.rng.random_range(0..=self.scenario.conduct.delay_max_ns * 3);
            self.happens(self.now_ns + delay_ns, Happening::ClientWritable(session));
        }
    }

    /// How much of a write the kernel takes.
    fn accepted(&mut self, length: usize) -> usize {
        if self.rng.random_bool(self.scenario.short_write) {
            self.rng.random_range(0..=length)
        } else {
            length
        }
    }
}
