//! Simulated worlds notice when a rule of replication is left out: `cargo test -p weir-testkit --features mutations --test mutations`.

use std::panic::{catch_unwind, set_hook, take_hook};
use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};
use weir_dataplane::Mutation;
use weir_testkit::simulation::{self, Outcome};

/// A rule whose absence is not seen in this number of worlds is not tested.
const SEEDS: u64 = 30_000;

/// Each test wants all threads.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A test per rule: what is found in which worlds. A rule without a test does not compile.
macro_rules! found {
    ($($name:ident: $run:ident($rule:ident);)+) => {
        $(#[test]
        fn $name() {
            must_be_found(Mutation::$rule, simulation::$run);
        })+

        const _: fn(Mutation) = |rule| match rule {
            $(Mutation::$rule => (),)+
        };
    };
}

found! {
    writes_of_one_key_by_several_loops_are_found: run_without(KeyOwner);
    a_server_that_is_read_though_it_missed_writes_is_found: run_without(Journal);
    a_connection_that_is_given_up_with_writes_on_it_is_found: run_without(Barrier);
    a_set_that_logs_in_a_connection_that_others_share_is_found: run_without(Greeting);
    a_copy_that_refused_what_others_did_is_found: run_without(Disagreement);
    a_read_that_is_asked_again_behind_a_change_is_found: run_without(Changes);
    meta_commands_that_others_forget_instead_of_following_are_found: run_without(MetaFollow);
    a_dead_connection_that_is_never_replaced_is_found: run_without(SecondOpinion);
    a_dead_connection_whose_writes_are_believed_to_be_lost_is_found: run_without(DeadEnding);
    a_silent_server_that_is_asked_because_its_keys_have_no_other_is_found: run_without(MarkDownAlone);
    a_miss_that_is_answered_before_the_end_of_a_shared_reply_is_found: run_without(MissAtEnd);
    a_write_that_overtakes_what_its_own_client_read_before_is_found: run_without(OwnOrder);
    an_opaque_of_another_client_is_found: run_without(OwnOpaque);
    a_get_that_takes_a_reply_from_before_a_write_is_found: run_without(CoalesceOverWrites);
    a_get_that_takes_a_reply_from_before_another_loops_write_is_found: run_without(SharedCounts);
    a_miss_that_is_asked_again_behind_a_change_is_found: run_without(FillPastChange);
    a_value_that_is_kept_over_a_write_is_found: run_without(NearOverWrites);
    a_value_that_is_kept_over_its_readers_own_write_is_found: run_without(NearOwnWrites);
    a_value_that_was_stored_before_another_loops_write_is_found: run_without(NearOtherWrites);
    a_value_that_is_answered_without_the_question_is_found: run_without(NearUnchecked);
    a_key_that_goes_where_an_earlier_table_led_is_found: run_without(PlacementOfTable);
    slices_that_overtake_what_their_client_sent_before_are_found: run_without(BulkReadAlone);
    a_server_that_is_asked_for_ever_what_it_does_not_know_is_found: run_without(ClosedQuestion);
    a_server_that_is_blamed_for_what_writes_have_waited_is_found: run_without(Overdue);
    a_write_of_a_lent_session_that_overtakes_one_of_its_key_is_found: run_lent_without(LentHold);
    a_denial_that_outlasts_its_request_is_found: run_lent_without(LentDenial);
}

fn must_be_found(rule: Mutation, run_without: fn(Mutation, u64) -> Outcome) {
    let guard = ONE_AT_A_TIME.lock();
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let found = first_violation(rule, run_without);
    set_hook(hook);
    drop(guard);
    println!("{rule:?}: found with seed {found:?}");
    assert!(found.is_some(), "{SEEDS} worlds end well without {rule:?}");
}

/// The first seed, or one of the first, of a world that notices.
fn first_violation(rule: Mutation, run_without: fn(Mutation, u64) -> Outcome) -> Option<u64> {
    let (next, found) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let search = || {
        while found.load(Ordering::Relaxed) == u64::MAX {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= SEEDS {
                return;
            }
            if catch_unwind(|| run_without(rule, seed)).is_err() {
                found.fetch_min(seed, Ordering::Relaxed);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        (0..threads).for_each(|_| _ = scope.spawn(search));
    });
    Some(found.into_inner()).filter(|seed| *seed != u64::MAX)
}
