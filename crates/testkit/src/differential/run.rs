//! Many streams, and what is said about those that differ.

use super::{
    examine::{Company, Difference},
    grammar::{SLOTS, generate},
    process::{StartError, Weir},
    stream::Stream,
    subject::{Pair, Transcript, World},
    verdict::{Verdict, differs_by_padding, is_cut_short, judge},
};
use std::{fmt, io, ops::Range};

/// What a run found.
#[derive(Debug, Default)]
pub struct Summary {
    /// Streams that were asked for.
    pub streams: u64,
    /// Streams that were compared: all but those that hung.
    pub compared: u64,
    /// Bytes that the plain memcached answered to them.
    pub bytes: u64,
    /// Streams to which the end of Weir's answers was lost because it closed with something unread.
    pub cut_short: u64,
    /// Streams that differ in company only, and only in the blanks behind a number that a `decr` made shorter, which memcached writes or
    /// not depending on how a pipeline arrives.
    pub padded: u64,
    /// Batches in which something hung. Their streams were asked again, each alone.
    pub batches_hung: u64,
    /// Streams on which the plain memcached hung, also alone.
    pub plain_hung: u64,
    /// Streams on which the memcached behind Weir hung, also alone.
    pub behind_hung: u64,
    /// Streams on which both subjects hung, also alone.
    pub both_hung: u64,
    /// Streams that differ, made small. No more than a few are looked for.
    pub differences: Vec<Difference>,
    /// Streams that differed once, but neither alone, nor with their company, nor behind all that came before. Their cause is unknown.
    pub unconfirmed: Vec<Difference>,
}

/// A run ends after this number of differences: most of what follows has the same causes.
const DIFFERENCES_MAX: usize = 12;

/// Servers are started anew after this number of streams, so that what came before a difference can be repeated.
const STREAMS_PER_WORLD: u64 = 5_000;

/// Of this number of streams one may hang a memcached before the run counts as failed.
const STREAMS_PER_HANG: u64 = 1_000;

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
pub fn run(weir: &Weir, seed: u64, streams: u64) -> Result<Summary, RunError> {
    let mut summary = Summary::default();
    let mut world = World::start(weir)?;
    // The first stream that this world has seen.
    let mut began = 0;
    while summary.streams < streams && summary.found() < DIFFERENCES_MAX {
        if summary.streams - began >= STREAMS_PER_WORLD {
            world.restart()?;
            began = summary.streams;
        }
        let batch = Batch::new(seed, summary.streams..streams.min(summary.streams + SLOTS));
        let answers = world.exchange(&batch.streams)?;
        summary.streams = batch.numbers.end;
        summary.take(&answers);
        let verdicts: Vec<_> = answers.iter().map(judge).collect();
        if verdicts.iter().all(|&verdict| verdict == Verdict::Alike) {
            summary.compared += verdicts.len() as u64;
        } else {
            let known = summary.found();
            let suspects = examine_alone(&mut world, &mut summary, &batch, &answers)?;
            if summary.found() == known && !suspects.is_empty() {
                examine_together(&mut world, &mut summary, &batch, began, suspects)?;
            }
            world.restart()?;
            began = summary.streams;
        }
    }
    Ok(summary)
}

/// Streams that are sent together.
struct Batch {
    seed: u64,
    numbers: Range<u64>,
    streams: Vec<Stream>,
}

impl Batch {
    fn new(seed: u64, numbers: Range<u64>) -> Self {
        let streams = numbers.clone().map(|number| generate(seed, number)).collect();
        Self { seed, numbers, streams }
    }
}

/// Asks for streams again, each alone: those that differed, and all of a batch in which something hung. Returns those whose
/// difference needs company.
fn examine_alone(
    world: &mut World,
    summary: &mut Summary,
    batch: &Batch,
    answers: &[Pair<Transcript>],
) -> Result<Vec<Difference>, RunError> {
    let mut suspects = Vec::new();
    let hung = answers.iter().any(|answers| answers.plain.hung.is_some() || answers.weir.hung.is_some());
    summary.batches_hung += u64::from(hung);
    world.restart()?;
    for ((number, stream), answers) in batch.numbers.clone().zip(&batch.streams).zip(answers) {
        let verdict = judge(answers);
        if verdict == Verdict::Alike && !hung {
            summary.compared += 1;
            continue;
        }
        if summary.found() >= DIFFERENCES_MAX {
            break;
        }
        let (alone, difference) = world.examine_stream(stream)?;
        match alone {
            Verdict::PlainHung => summary.plain_hung += 1,
            Verdict::BehindHung => summary.behind_hung += 1,
            Verdict::BothHung => summary.both_hung += 1,
            Verdict::Alike | Verdict::Different => summary.compared += 1,
        }
        summary
            .differences
            .extend(difference.map(|difference| Difference { number: Some(number), ..difference }));
        if alone == Verdict::Alike && differs_by_padding(answers) && verdict == Verdict::Different {
            summary.padded += 1;
        } else if alone == Verdict::Alike && matches!(verdict, Verdict::Different | Verdict::BothHung) {
            suspects.push(Difference::new(Some(number), stream, answers));
        }
    }
    Ok(suspects)
}

/// Asks for a batch again in which streams differed that do not differ alone: first the batch, then all since `began`.
fn examine_together(
    world: &mut World,
    summary: &mut Summary,
    batch: &Batch,
    began: u64,
    suspects: Vec<Difference>,
) -> Result<(), RunError> {
    if let Some(difference) = world.examine_batch(&batch.streams)? {
        summary.differences.push(Difference { number: Some(batch.numbers.start), ..difference });
        return Ok(());
    }
    world.restart()?;
    let mut next = began;
    while next < batch.numbers.end {
        let again = Batch::new(batch.seed, next..batch.numbers.end.min(next + SLOTS));
        for (at, answers) in world.exchange(&again.streams)?.iter().enumerate() {
            if matches!(judge(answers), Verdict::Different | Verdict::BothHung) {
                let difference = Difference::new(Some(next + at as u64), &again.streams[at], answers);
                summary.differences.push(Difference { company: Company::Since(began), ..difference });
                return Ok(());
            }
        }
        next = again.numbers.end;
    }
    summary.unconfirmed.extend(suspects);
    Ok(())
}

impl Summary {
    /// Whether Weir answered as memcached, as far as memcached answered, and nothing is left unexplained.
    pub fn is_agreement(&self) -> bool {
        let hung = self.plain_hung + self.behind_hung;
        self.found() == 0 && self.both_hung == 0 && hung <= self.streams / STREAMS_PER_HANG
    }

    fn found(&self) -> usize {
        self.differences.len() + self.unconfirmed.len()
    }

    fn take(&mut self, answers: &[Pair<Transcript>]) {
        for Pair { plain, weir } in answers {
            self.bytes += plain.bytes.len() as u64;
            self.cut_short += u64::from(is_cut_short(&Pair { plain, weir }));
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} of {} streams compared, {} bytes of answers: {} differences, {} unconfirmed; {} cut short by a reset, {} padded",
            self.compared,
            self.streams,
            self.bytes,
            self.differences.len(),
            self.unconfirmed.len(),
            self.cut_short,
            self.padded
        )?;
        writeln!(
            f,
            "hung: {} batches, repeated one stream at a time; {} streams in memcached alone, {} in the memcached behind weir, {} in both",
            self.batches_hung, self.plain_hung, self.behind_hung, self.both_hung
        )?;
        self.differences.iter().try_for_each(|difference| difference.fmt(f))?;
        self.unconfirmed.iter().try_for_each(|difference| write!(f, "unconfirmed: {difference}"))
    }
}
