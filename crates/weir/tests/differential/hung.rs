//! A process that hangs is recognised, blamed rightly, and replaced.

use super::start;
use std::time::Duration;
use weir_testkit::differential::{Hang, Pair, Part, Stream, Verdict, judge};

const SILENT: Hang = Hang { server_answers: false, subject_answers: false };

/// Freezes a process, sends two streams, checks what is said about both; then all must be well again.
fn check(part: Part, verdict: Verdict, hangs: Pair<Option<Hang>>) {
    let mut world = start();
    // Long enough for who is not frozen, on a busy machine.
    world.set_timeout(Duration::from_secs(2));
    let streams = [Stream::whole(b"set a 0 0 1\r\nx\r\n"), Stream::whole(b"get b\r\n")];
    // weir is connected to its server behind that; one that is frozen before it has answered a greeting is down.
    world.exchange(&streams).expect("all processes are well");
    world.freeze(part).expect("a process of ours can be stopped");
    for answers in world.exchange(&streams).expect("a hanging process is no error") {
        assert_eq!((answers.plain.hung, answers.weir.hung), (hangs.plain, hangs.weir));
        assert_eq!(judge(&answers), verdict);
    }
    world.set_timeout(Duration::from_secs(20));
    for answers in world.exchange(&streams).expect("everything was started anew") {
        assert_eq!(judge(&answers), Verdict::Alike, "{answers:?}");
    }
}

#[test]
fn a_frozen_memcached_is_not_compared() {
    check(Part::Plain, Verdict::PlainHung, Pair { plain: Some(SILENT), weir: None });
}

#[test]
fn a_frozen_memcached_behind_weir_is_not_blamed_on_weir() {
    check(Part::Behind, Verdict::BehindHung, Pair { plain: None, weir: Some(SILENT) });
}

#[test]
fn a_frozen_weir_is_a_difference() {
    let hang = Hang { server_answers: true, subject_answers: false };
    check(Part::Proxy, Verdict::Different, Pair { plain: None, weir: Some(hang) });
}
