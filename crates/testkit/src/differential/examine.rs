//! Streams that were answered differently are asked for again, and made small.

use super::{
    grammar::is_spared,
    minimise::{minimise, reduce},
    run::RunError,
    stream::Stream,
    subject::{Pair, Transcript, World},
    verdict::{Verdict, judge},
};
use std::fmt;

/// A stream that is answered differently.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Its number, or nothing for one that was not generated.
    pub number: Option<u64>,
    /// The stream, as small as it could be made.
    pub stream: Stream,
    /// What else must be sent.
    pub company: Company,
    /// The answers to it.
    pub answers: Pair<Transcript>,
}

/// What a stream that is answered differently needs beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Company {
    /// Nothing.
    None,
    /// These streams at the same time.
    Streams(Vec<Stream>),
    /// All streams since that number, in batches.
    Since(u64),
}

impl Difference {
    pub(super) fn new(number: Option<u64>, stream: &Stream, answers: &Pair<Transcript>) -> Self {
        Self { number, stream: stream.clone(), company: Company::None, answers: answers.clone() }
    }
}

impl World {
    /// Sends one stream alone, to servers without any key of it: nothing if the answers agree, otherwise a small stream for
    /// which they do not.
    pub fn examine(&mut self, stream: &Stream) -> Result<Option<Difference>, RunError> {
        match self.examine_stream(stream)? {
            (_, Some(difference)) => Ok(Some(difference)),
            (Verdict::Alike, None) => Ok(None),
            (_, None) => {
                let answers = self.ask_alone(stream)?;
                Ok(Some(Difference::new(None, stream, &answers)))
            }
        }
    }

    /// Sends one stream alone; if the answers differ, also says to which small stream they do.
    pub(super) fn examine_stream(
        &mut self,
        stream: &Stream,
    ) -> Result<(Verdict, Option<Difference>), RunError> {
        let mut answers = self.ask_alone(stream)?;
        let verdict = judge(&answers);
        if verdict != Verdict::Different {
            return Ok((verdict, None));
        }
        // Each attempt to make a hanging stream smaller would wait for it again.
        if answers.weir.hung.is_some() {
            return Ok((verdict, Some(Difference::new(None, stream, &answers))));
        }
        // What is made smaller must not become another stream, for which memcached is known to answer otherwise.
        let spared = is_spared(stream);
        let mut differs = |stream: &Stream| match self.ask_alone(stream) {
            Ok(found) if judge(&found) == Verdict::Different => {
                answers = found;
                true
            }
            _ => false,
        };
        let smallest = minimise(stream, |stream| is_spared(stream) == spared && differs(stream));
        Ok((verdict, Some(Difference::new(None, &smallest, &answers))))
    }

    /// Sends streams together to fresh servers; if answers differ, says to which few of them they do.
    pub(super) fn examine_batch(&mut self, streams: &[Stream]) -> Result<Option<Difference>, RunError> {
        let mut found = None;
        let mut differs = |streams: &[Stream]| {
            self.restart()?;
            let answers = self.exchange(streams)?;
            let at = answers
                .iter()
                .position(|answers| matches!(judge(answers), Verdict::Different | Verdict::BothHung));
            Ok::<_, RunError>(at.map(|at| (at, answers[at].clone())))
        };
        match differs(streams)? {
            Some(first) => found.replace(first),
            None => return Ok(None),
        };
        let mut streams = reduce(streams.to_vec(), |streams| match differs(streams) {
            Ok(Some(again)) => {
                found = Some(again);
                true
            }
            _ => false,
        });
        Ok(found.map(|(at, answers)| {
            let stream = streams.remove(at);
            Difference { number: None, stream, company: Company::Streams(streams), answers }
        }))
    }

    fn ask_alone(&mut self, stream: &Stream) -> Result<Pair<Transcript>, RunError> {
        self.scrub(stream)?;
        Ok(self.exchange(std::slice::from_ref(stream))?.remove(0))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            Some(number) => writeln!(f, "stream {number} is answered differently; made small:")?,
            None => writeln!(f, "answered differently; made small:")?,
        }
        write_stream(&self.stream, f)?;
        for (name, answer) in [("memcached", &self.answers.plain), ("weir", &self.answers.weir)] {
            writeln!(f, "  {name:9} b\"{}\"{}", answer.bytes.escape_ascii(), end(answer))?;
        }
        match &self.company {
            Company::None => Ok(()),
            Company::Since(number) => writeln!(f, "  only behind all streams since number {number}"),
            Company::Streams(streams) => streams.iter().try_for_each(|stream| {
                writeln!(f, "  only together with:")?;
                write_stream(stream, f)
            }),
        }
    }
}

fn write_stream(stream: &Stream, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    stream
        .phases
        .iter()
        .try_for_each(|phase| writeln!(f, "  b\"{}\", cut at {:?}", phase.bytes.escape_ascii(), phase.cuts))
}

fn end(answer: &Transcript) -> String {
    match answer {
        Transcript { died: Some(how), .. } => format!(", then ended as a process: {how}"),
        Transcript { hung: Some(hang), .. } => format!(
            ", then hung; asked on new connections, {} and {}",
            if hang.subject_answers { "it answers" } else { "it is silent" },
            if hang.server_answers { "its memcached answers" } else { "its memcached is silent" },
        ),
        Transcript { complete: true, .. } => String::new(),
        Transcript { reset: true, .. } => ", then reset".to_owned(),
        _ => ", then closed".to_owned(),
    }
}
