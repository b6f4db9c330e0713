//! The two subjects: a plain memcached, and Weir in front of another.

use super::{
    client::{Client, QUESTION},
    process::{Process, StartError, start_memcached, start_weir},
    run::RunError,
    stream::Stream,
};
use std::{
    io, mem,
    path::{Path, PathBuf},
};

/// The same thing for both subjects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair<T> {
    /// Of the plain memcached.
    pub plain: T,
    /// Of Weir.
    pub weir: T,
}

/// What a subject answered on one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transcript {
    /// All bytes, without the answer to the question at the end.
    pub bytes: Vec<u8>,
    /// Whether the question at the end was answered, so that the connection had lived until then.
    pub complete: bool,
    /// Whether the subject neither answered nor closed.
    pub hung: bool,
    /// Whether a process of the subject ended over it.
    pub died: bool,
}

/// Two memcached servers and one Weir, which end with this value, and are started anew when one of them ended.
#[derive(Debug)]
pub struct World {
    weir: PathBuf,
    processes: Processes,
}

#[derive(Debug)]
struct Processes {
    plain: Process,
    behind: Process,
    proxy: Process,
}

impl Processes {
    fn start(weir: &Path) -> Result<Self, StartError> {
        let plain = start_memcached()?;
        let behind = start_memcached()?;
        let proxy = start_weir(weir, behind.address)?;
        Ok(Self { plain, behind, proxy })
    }
}

impl World {
    /// Starts everything; `weir` is the binary.
    pub fn start(weir: &Path) -> Result<Self, StartError> {
        Ok(Self { weir: weir.to_owned(), processes: Processes::start(weir)? })
    }

    /// Replaces everything, with nothing stored.
    pub fn restart(&mut self) -> Result<(), StartError> {
        self.processes = Processes::start(&self.weir)?;
        Ok(())
    }

    /// Sends the streams, piece by piece in turn, and returns what was answered.
    pub fn exchange(&mut self, streams: &[Stream]) -> Result<Vec<Pair<Transcript>>, RunError> {
        let exchanged = self.try_exchange(streams);
        let died = Pair {
            plain: self.processes.plain.has_ended(),
            weir: self.processes.proxy.has_ended() || self.processes.behind.has_ended(),
        };
        if !died.plain && !died.weir {
            return Ok(exchanged?);
        }
        self.restart()?;
        let mut answers = exchanged.unwrap_or_default();
        answers.resize_with(streams.len(), Pair::default);
        for answer in &mut answers {
            answer.plain.died = died.plain;
            answer.weir.died = died.weir;
        }
        Ok(answers)
    }

    fn try_exchange(&self, streams: &[Stream]) -> io::Result<Vec<Pair<Transcript>>> {
        let connect = |_| {
            Ok(Pair {
                plain: Client::connect(self.processes.plain.address)?,
                weir: Client::connect(self.processes.proxy.address)?,
            })
        };
        let mut clients = streams.iter().map(connect).collect::<io::Result<Vec<_>>>()?;
        for phase in 0..streams.iter().map(|stream| stream.phases.len()).max().unwrap_or(0) {
            send_phase(phase, streams, &mut clients)?;
        }
        for (client, stream) in clients.iter_mut().zip(streams) {
            let tail = tail(stream);
            client.plain.finish(&tail)?;
            client.weir.finish(&tail)?;
        }
        let read = |client: Pair<Client>| {
            Ok(Pair { plain: client.plain.read_to_end()?, weir: client.weir.read_to_end()? })
        };
        clients.into_iter().map(read).collect()
    }

    /// Deletes every word of the stream from both servers, so that it meets the same state in both.
    pub fn scrub(&self, stream: &Stream) -> io::Result<()> {
        let bytes = stream
            .phases
            .iter()
            .flat_map(|phase| [&phase.bytes[..], b" "])
            .flatten()
            .copied()
            .collect::<Vec<_>>();
        let mut commands = Vec::new();
        for word in
            bytes.split(|byte| b" \r\n\0".contains(byte)).filter(|word| (1..=250).contains(&word.len()))
        {
            for (before, after) in [(&b"delete "[..], &b" noreply\r\n"[..]), (b"md ", b" b q\r\n")] {
                commands.extend_from_slice(before);
                commands.extend_from_slice(word);
                commands.extend_from_slice(after);
            }
        }
        for server in [&self.processes.plain, &self.processes.behind] {
            let mut client = Client::connect(server.address)?;
            client.finish(&[&commands, QUESTION].concat())?;
            client.read_to_end()?;
        }
        Ok(())
    }
}

/// Sends phase number `phase` of all streams that have it. Behind a phase that is not the last, waits for its answers.
fn send_phase(phase: usize, streams: &[Stream], clients: &mut [Pair<Client>]) -> io::Result<()> {
    let mut in_turn = Vec::with_capacity(streams.len());
    for (stream, client) in streams.iter().zip(clients) {
        let Some(parts) = stream.phases.get(phase) else { continue };
        let is_last = phase + 1 == stream.phases.len();
        let end = if is_last { &b""[..] } else { QUESTION };
        for client in [&mut client.plain, &mut client.weir] {
            let message = [&parts.fill_in(client.tokens())[..], end].concat();
            in_turn.push((
                parts.pieces(&message).map(<[u8]>::to_vec).collect::<Vec<_>>().into_iter(),
                client,
                is_last,
            ));
        }
    }
    let mut sent = true;
    while mem::take(&mut sent) {
        for (pieces, client, _) in &mut in_turn {
            if let Some(piece) = pieces.next() {
                client.write(&piece)?;
                sent = true;
            }
        }
    }
    in_turn
        .into_iter()
        .filter(|(.., is_last)| !is_last)
        .try_for_each(|(_, client, _)| client.read_to_answer())
}

/// Leaves whatever data block the stream left open, and asks the question.
fn tail(stream: &Stream) -> Vec<u8> {
    /// Shorter than any line that memcached finds too long.
    const LINE: &[u8] = &{
        let mut line = [b' '; 1000];
        line[998] = b'\r';
        line[999] = b'\n';
        line
    };
    let mut tail = LINE.repeat(1 + stream.longest_block() / LINE.len());
    tail.extend_from_slice(QUESTION);
    tail
}
