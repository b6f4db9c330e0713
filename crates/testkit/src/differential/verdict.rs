//! What two transcripts of one stream say about the subjects.

use super::{
    normalise::normalise,
    subject::{Hang, Pair, Transcript},
};

/// What the answers to one stream say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Both answered alike.
    Alike,
    /// Weir answered otherwise, or hung while the memcached behind it answers.
    Different,
    /// The plain memcached hung: there is nothing to compare with.
    PlainHung,
    /// The memcached behind Weir hung; asked directly it is silent too.
    BehindHung,
    /// Both hung. Whatever the cause is, this is no agreement.
    BothHung,
}

/// Judges the answers to one stream.
pub fn judge(answers: &Pair<Transcript>) -> Verdict {
    match (answers.plain.hung, answers.weir.hung) {
        (Some(_), Some(_)) => Verdict::BothHung,
        (Some(_), None) => Verdict::PlainHung,
        (None, Some(Hang { server_answers: false, .. })) => Verdict::BehindHung,
        (None, Some(_)) => Verdict::Different,
        (None, None) if agree(answers) => Verdict::Alike,
        (None, None) => Verdict::Different,
    }
}

fn agree(Pair { plain, weir }: &Pair<Transcript>) -> bool {
    if plain.died.is_some() || weir.died.is_some() || plain.complete != weir.complete {
        return false;
    }
    let normal = Pair { plain: normalise(&plain.bytes), weir: normalise(&weir.bytes) };
    if normal.plain.is_like(&normal.weir) {
        return true;
    }
    // memcached forgets what it has not sent yet when it closes, and answers that a block is too large behind the block. Weir
    // answers all that came before the end.
    let ended = !plain.complete;
    let forgot = normal.weir.bytes.starts_with(&normal.plain.bytes) || plain.reset && is_cut_of(plain, weir);
    ended && (forgot || is_cut_short(&Pair { plain, weir }))
}

/// Whether the end of Weir's answers was lost on the way. Weir closed a connection on which more had come than it read, and so the kernel
/// forgot what it had not delivered. memcached loses answers in the same way.
pub(super) fn is_cut_short(answers: &Pair<&Transcript>) -> bool {
    let Pair { plain, weir } = answers;
    !plain.complete && weir.reset && is_cut_of(weir, plain)
}

/// Whether nothing but the padding of numbers differs.
pub(super) fn differs_by_padding(Pair { plain, weir }: &Pair<Transcript>) -> bool {
    let answered = |transcript: &Transcript| transcript.hung.is_none() && transcript.died.is_none();
    answered(plain)
        && answered(weir)
        && plain.complete == weir.complete
        && normalise(&plain.bytes).without_padding() == normalise(&weir.bytes).without_padding()
}

/// Whether one transcript is the other with its end cut off. A word that is cut is not normalised as it is whole: what
/// remains of the last line is not compared.
fn is_cut_of(cut: &Transcript, whole: &Transcript) -> bool {
    let (shorter, longer) = (normalise(&cut.bytes).bytes, normalise(&whole.bytes).bytes);
    let lines = shorter.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    cut.bytes.len() < whole.bytes.len() && longer.starts_with(&shorter[..lines])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENT: Hang = Hang { server_answers: false, subject_answers: false };
    const TALKING: Hang = Hang { server_answers: true, subject_answers: false };

    fn said(bytes: &[u8]) -> Transcript {
        Transcript { bytes: bytes.to_vec(), complete: true, ..Transcript::default() }
    }

    fn hung(hang: Hang) -> Transcript {
        Transcript { hung: Some(hang), ..Transcript::default() }
    }

    fn closed(bytes: &[u8], reset: bool) -> Transcript {
        Transcript { bytes: bytes.to_vec(), reset, ..Transcript::default() }
    }

    fn check(plain: Transcript, weir: Transcript, verdict: Verdict) {
        let answers = Pair { plain, weir };
        assert_eq!(judge(&answers), verdict, "{answers:?}");
    }

    #[test]
    fn answers_are_compared() {
        check(said(b"STORED\r\n"), said(b"STORED\r\n"), Verdict::Alike);
        check(said(b"STORED\r\n"), said(b"ERROR\r\n"), Verdict::Different);
        check(said(b"STORED\r\n"), closed(b"STORED\r\n", false), Verdict::Different);
        let died = Transcript { died: Some("signal 6".to_owned()), ..said(b"") };
        check(said(b""), died, Verdict::Different);
    }

    #[test]
    fn who_hangs_is_distinguished() {
        check(hung(SILENT), said(b""), Verdict::PlainHung);
        check(said(b""), hung(SILENT), Verdict::BehindHung);
        check(said(b""), hung(TALKING), Verdict::Different);
        check(hung(SILENT), hung(TALKING), Verdict::BothHung);
        check(hung(SILENT), hung(SILENT), Verdict::BothHung);
    }

    #[test]
    fn an_end_may_take_answers_with_it() {
        // Of memcached at any time, of Weir if the connection was reset.
        check(closed(b"END\r\n", false), closed(b"END\r\nEND\r\n", false), Verdict::Alike);
        check(closed(b"END\r\nEND\r\n", false), closed(b"END\r\n", false), Verdict::Different);
        check(closed(b"END\r\nEND\r\n", false), closed(b"END\r\nE", true), Verdict::Alike);
        check(closed(b"END\r\nEND\r\n", false), closed(b"ERROR\r\n", true), Verdict::Different);
        check(said(b"END\r\nEND\r\n"), Transcript { reset: true, ..said(b"END\r\n") }, Verdict::Different);
    }
}
