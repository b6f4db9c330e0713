//! What an answer says: whether it fits its request, what it acknowledges, and which request it asks for in turn.

use weir_protocol::{Reply, Status, ValueSpan};

use super::{Connection, Outstanding};
use crate::content::Command;
use crate::workload::mix::{Ask, Then};
use crate::workload::verify::{Fault, Found, meta_value, text, verify_number, verify_values};

impl Connection {
    /// Whether the reply answers the request, and which keys it did not find.
    pub(super) fn verify(
        &mut self,
        request: Outstanding,
        reply: Reply,
        buffer: &[u8],
    ) -> Result<Found, Fault> {
        let command = request.ask.command;
        let key = self.keys[0].key;
        let unfit = || Fault::Unfit { reply: text(buffer[reply.last_line..reply.len].trim_ascii_end()) };
        let (hit, miss) = (Found { hits: 1, ..Found::default() }, Found { misses: 1, ..Found::default() });
        match reply.status {
            Status::End => self.verify_read(request, None, buffer),
            Status::MetaMiss if command == Command::MetaGet => self.verify_read(request, None, &[]),
            Status::MetaValue if command == Command::MetaGet => {
                let buffer = &buffer[..reply.len];
                self.verify_read(request, Some(&meta_value(buffer).ok_or_else(unfit)?), buffer)
            }
            Status::Stored | Status::Deleted => {
                self.workload.versions.acknowledge(key, request.version);
                let was_there = matches!(
                    command,
                    Command::Replace | Command::Append | Command::Prepend | Command::Cas | Command::Delete
                );
                Ok(if was_there { hit } else { Found::default() })
            }
            Status::MetaDone if command == Command::MetaSet => {
                self.workload.versions.acknowledge(key, request.version);
                Ok(Found::default())
            }
            // The key holds something, which `add` leaves alone, or which was written after the `gets`.
            Status::NotStored if command == Command::Add => Ok(hit),
            Status::Exists if command == Command::Cas => Ok(hit),
            Status::NotStored if matches!(command, Command::Replace | Command::Append | Command::Prepend) => {
                Ok(miss)
            }
            Status::NotFound if command == Command::Cas => Ok(miss),
            Status::NotFound if command == Command::Delete => {
                self.workload.versions.acknowledge(key, request.version);
                Ok(miss)
            }
            Status::Touched => Ok(hit),
            Status::Number => verify_number(&self.workload, key, &buffer[..reply.len]).map(|()| hit),
            Status::NotFound if command == Command::Touch || command.is_arithmetic() => {
                self.missed.push(key);
                Ok(miss)
            }
            _ => Err(unfit()),
        }
    }

    fn verify_read(
        &mut self,
        request: Outstanding,
        meta: Option<&ValueSpan>,
        buffer: &[u8],
    ) -> Result<Found, Fault> {
        let asked = self.keys.range(..request.keys as usize).copied();
        let is_meta = request.ask.command == Command::MetaGet;
        let values = if is_meta { meta.map_or(&[][..], std::slice::from_ref) } else { self.scanner.values() };
        let found =
            verify_values(&self.workload, asked, self.names.front(), values, buffer, &mut self.missed)?;
        let tokens = matches!(request.ask.command, Command::Gets | Command::Gats);
        match values.iter().find(|value| tokens && value.cas.is_none()) {
            Some(value) => Err(Fault::NoToken { key: text(&buffer[value.key.clone()]) }),
            None => Ok(found),
        }
    }

    /// Notes the requests that the answer asks for. `missed` holds the keys that were not found.
    pub(super) fn follow_up(&mut self, request: Outstanding) {
        let fill = match request.ask.then {
            Then::Nothing => return,
            Then::Fill => true,
            Then::Cas { fill } => {
                let token = self.scanner.values().first().and_then(|value| value.cas);
                if let Some(cas) = token {
                    let ask = Ask {
                        command: Command::Cas,
                        cas,
                        then: Then::Nothing,
                        is_follow_up: true,
                        ..request.ask
                    };
                    self.follow_ups.push_back((ask, self.keys[0].key));
                    self.follow_up_names.extend(self.names.front());
                }
                fill
            }
        };
        if fill {
            // A number that is not there is added, so that nobody's counting is undone.
            let command = if request.ask.command.is_arithmetic() { Command::Add } else { Command::Set };
            let ask = Ask { command, then: Then::Nothing, is_follow_up: true, ..request.ask };
            self.follow_ups.extend(self.missed.iter().map(|&key| (ask, key)));
            self.follow_up_names.extend(self.missed.iter().zip(self.names.front()).map(|(_, name)| *name));
        }
    }

    /// A write was not acknowledged: it may take effect later, or never.
    pub(super) fn lose_write(&self, request: Outstanding) {
        if request.ask.command.is_write() {
            self.workload.versions.lose(self.keys[0].key);
        }
    }
}
