//! The two subjects: a plain memcached, and Weir in front of another.

use super::{
    client::{Client, QUESTION, ReadTimeout},
    process::{Process, StartError, Weir, start_memcached, start_weir},
    run::RunError,
    stream::Stream,
};
use std::{io, mem, net::SocketAddr, time::Duration};

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
    /// Whether the connection was reset. The kernel then forgets what it had not delivered yet.
    pub reset: bool,
    /// The subject neither answered nor closed.
    pub hung: Option<Hang>,
    /// A process of the subject ended over it; how, and what it said.
    pub died: Option<String>,
}

/// What was found when a subject did not answer a client: new connections with a question of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hang {
    /// Whether the subject's memcached answers when it is asked directly.
    pub server_answers: bool,
    /// Whether the subject answers another client.
    pub subject_answers: bool,
}

/// One of the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The memcached that is asked directly.
    Plain,
    /// The memcached behind Weir.
    Behind,
    /// Weir.
    Proxy,
}

/// Two memcached servers and one Weir, which end with this value, and are started anew when one of them ended or hung.
#[derive(Debug)]
pub struct World {
    weir: Weir,
    timeout: Duration,
    processes: Processes,
}

/// A subject that is silent for so long hangs: much longer than a busy machine makes anybody wait.
const WAIT_MAX: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct Processes {
    plain: Process,
    behind: Process,
    proxy: Process,
}

impl Processes {
    fn start(weir: &Weir) -> Result<Self, StartError> {
        let plain = start_memcached()?;
        let behind = start_memcached()?;
        let proxy = start_weir(weir, behind.address)?;
        Ok(Self { plain, behind, proxy })
    }

    fn died(&mut self) -> Pair<Option<String>> {
        Pair { plain: self.plain.end(), weir: self.proxy.end().or_else(|| self.behind.end()) }
    }
}

impl World {
    /// Starts everything.
    pub fn start(weir: &Weir) -> Result<Self, StartError> {
        Ok(Self { weir: weir.clone(), timeout: WAIT_MAX, processes: Processes::start(weir)? })
    }

    /// How Weir was started.
    pub fn flags(&self) -> &[&'static str] {
        &self.weir.flags
    }

    /// Lets a subject hang after `timeout` of silence.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Replaces everything, with nothing stored.
    pub fn restart(&mut self) -> Result<(), StartError> {
        self.processes = Processes::start(&self.weir)?;
        Ok(())
    }

    /// Stops one of the processes until the next restart, so that it hangs.
    pub fn freeze(&self, part: Part) -> io::Result<()> {
        match part {
            Part::Plain => self.processes.plain.freeze(),
            Part::Behind => self.processes.behind.freeze(),
            Part::Proxy => self.processes.proxy.freeze(),
        }
    }

    /// Sends the streams, piece by piece in turn, and returns what was answered. If something hung or ended, says why, and
    /// restarts everything.
    pub fn exchange(&mut self, streams: &[Stream]) -> Result<Vec<Pair<Transcript>>, RunError> {
        let exchanged = self.try_exchange(streams);
        let died = self.processes.died();
        if died == Pair::default() {
            let mut answers = exchanged?;
            if answers.iter().any(|answer| answer.plain.hung.is_some() || answer.weir.hung.is_some()) {
                let found = self.diagnose();
                for answer in &mut answers {
                    answer.plain.hung = answer.plain.hung.map(|_| found.plain);
                    answer.weir.hung = answer.weir.hung.map(|_| found.weir);
                }
                self.restart()?;
            }
            return Ok(answers);
        }
        self.restart()?;
        let mut answers = exchanged.unwrap_or_default();
        answers.resize_with(streams.len(), Pair::default);
        for answer in &mut answers {
            answer.plain.died.clone_from(&died.plain);
            answer.weir.died.clone_from(&died.weir);
        }
        Ok(answers)
    }

    fn try_exchange(&self, streams: &[Stream]) -> io::Result<Vec<Pair<Transcript>>> {
        let timeout = Pair { plain: ReadTimeout::new(self.timeout), weir: ReadTimeout::new(self.timeout) };
        let connect = |_| {
            Ok(Pair {
                plain: Client::connect(self.processes.plain.address, &timeout.plain)?,
                weir: Client::connect(self.processes.proxy.address, &timeout.weir)?,
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

    /// Asks everybody on a connection of its own.
    fn diagnose(&self) -> Pair<Hang> {
        let Processes { plain, behind, proxy } = &self.processes;
        let plain = self.answers(plain.address);
        Pair {
            plain: Hang { server_answers: plain, subject_answers: plain },
            weir: Hang {
                server_answers: self.answers(behind.address),
                subject_answers: self.answers(proxy.address),
            },
        }
    }

    fn answers(&self, address: SocketAddr) -> bool {
        let ask = || {
            let mut client = Client::connect(address, &ReadTimeout::new(self.timeout))?;
            client.finish(QUESTION)?;
            Ok::<_, io::Error>(client.read_to_end()?.complete)
        };
        ask().unwrap_or(false)
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
            let mut client = Client::connect(server.address, &ReadTimeout::new(self.timeout))?;
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
    [&stream.filler(), QUESTION].concat()
}
