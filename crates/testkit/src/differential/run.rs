//! Many streams, and what is said about those that differ.

use super::{
    grammar::{SLOTS, generate},
    minimise::minimise,
    normalise::normalise,
    process::StartError,
    stream::Stream,
    subject::{Pair, Transcript, World},
};
use std::{fmt, io, path::Path};

/// What a run found.
#[derive(Debug, Default)]
pub struct Summary {
    /// Streams that were compared.
    pub streams: u64,
    /// Bytes that the plain memcached answered to them.
    pub bytes: u64,
    /// Streams that differed among others but not alone: they met another stream's key by accident.
    pub unconfirmed: u64,
    /// Streams that differ, made small. No more than a few are looked for.
    pub differences: Vec<Difference>,
}

/// A stream that is answered differently.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Its number, or nothing for one that was not generated.
    pub number: Option<u64>,
    /// The stream, as small as it could be made.
    pub stream: Stream,
    /// The answers to it.
    pub answers: Pair<Transcript>,
}

/// A run ends after so many differences: most of what follows has the same causes.
const DIFFERENCES_MAX: usize = 12;

/// Servers are started anew after so many streams, before what they keep makes them evict.
const STREAMS_PER_WORLD: u64 = 20_000;

/// Why a run could not go on.
#[derive(Debug)]
pub enum RunError {
    /// A process could not be started.
    Start(StartError),
    /// A connection failed otherwise than by being closed.
    Io(io::Error),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(error) => error.fmt(f),
            Self::Io(error) => write!(f, "a connection to a subject failed: {error}"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<StartError> for RunError {
    fn from(error: StartError) -> Self {
        Self::Start(error)
    }
}

impl From<io::Error> for RunError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Compares the answers to streams number 0 to `streams` of the seed; `weir` is the binary.
pub fn run(weir: &Path, seed: u64, streams: u64) -> Result<Summary, RunError> {
    let mut summary = Summary::default();
    let mut world = World::start(weir)?;
    let mut until_restart = STREAMS_PER_WORLD;
    while summary.streams < streams && summary.differences.len() < DIFFERENCES_MAX {
        if until_restart == 0 {
            world.restart()?;
            until_restart = STREAMS_PER_WORLD;
        }
        let first = summary.streams;
        let count = SLOTS.min(streams - first).min(until_restart);
        let batch: Vec<_> = (first..first + count).map(|number| generate(seed, number)).collect();
        let answers = world.exchange(&batch)?;
        summary.streams += count;
        until_restart -= count;
        for ((number, stream), answers) in (first..).zip(&batch).zip(&answers) {
            summary.bytes += answers.plain.bytes.len() as u64;
            if agree(answers) {
                continue;
            }
            world.restart()?;
            until_restart = STREAMS_PER_WORLD;
            match world.examine(stream)? {
                Some(difference) => {
                    summary.differences.push(Difference { number: Some(number), ..difference });
                }
                None => summary.unconfirmed += 1,
            }
        }
    }
    Ok(summary)
}

impl World {
    /// Sends one stream alone, to servers without any key of it: nothing if the answers agree, otherwise a small stream for
    /// which they do not.
    pub fn examine(&mut self, stream: &Stream) -> Result<Option<Difference>, RunError> {
        let mut differs = |stream: &Stream| {
            self.scrub(stream)?;
            let [answers] = &self.exchange(std::slice::from_ref(stream))?[..] else { return Ok(None) };
            Ok::<_, RunError>((!agree(answers)).then(|| answers.clone()))
        };
        let Some(mut answers) = differs(stream)? else { return Ok(None) };
        // Each attempt to make a hanging stream smaller would wait for it again.
        if answers.plain.hung || answers.weir.hung {
            return Ok(Some(Difference { number: None, stream: stream.clone(), answers }));
        }
        let stream = minimise(stream, |stream| match differs(stream) {
            Ok(Some(found)) => {
                answers = found;
                true
            }
            _ => false,
        });
        Ok(Some(Difference { number: None, stream, answers }))
    }
}

/// Whether the subjects answered alike.
pub fn agree(answers: &Pair<Transcript>) -> bool {
    let Pair { plain, weir } = answers;
    let normal = Pair { plain: normalise(&plain.bytes), weir: normalise(&weir.bytes) };
    if plain.died || weir.died || plain.hung != weir.hung || plain.complete != weir.complete {
        return false;
    }
    // memcached forgets what it has not sent yet when it closes, and answers that a block is too large behind the block. Weir
    // answers all that came before the end.
    let ended = !plain.complete;
    normal.plain.is_like(&normal.weir) || ended && normal.weir.bytes.starts_with(&normal.plain.bytes)
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            Some(number) => writeln!(f, "stream {number} is answered differently; made small:")?,
            None => writeln!(f, "answered differently; made small:")?,
        }
        for phase in &self.stream.phases {
            writeln!(f, "  b\"{}\", cut at {:?}", phase.bytes.escape_ascii(), phase.cuts)?;
        }
        for (name, answer) in [("memcached", &self.answers.plain), ("weir", &self.answers.weir)] {
            let end = match answer {
                Transcript { died: true, .. } => ", then ended as a process",
                Transcript { hung: true, .. } => ", then hung",
                Transcript { complete: true, .. } => "",
                _ => ", then closed",
            };
            writeln!(f, "  {name:9} b\"{}\"{end}", answer.bytes.escape_ascii())?;
        }
        Ok(())
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} streams, {} bytes of answers, {} differences ({} unconfirmed)",
            self.streams,
            self.bytes,
            self.differences.len(),
            self.unconfirmed
        )?;
        self.differences.iter().try_for_each(|difference| difference.fmt(f))
    }
}
