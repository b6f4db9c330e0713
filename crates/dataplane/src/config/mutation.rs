//! Rules that tests leave out, to see that somebody notices (`crates/testkit/tests/mutations.rs`).

/// A rule of replication that can be left out, for tests only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Every loop writes every key itself.
    KeyOwner,
    /// What a server missed is not remembered.
    Journal,
    /// A connection with unanswered writes is closed, and the next one trusted at once.
    Barrier,
    /// Clients' requests are sent on a new connection at once.
    Greeting,
    /// A copy that refused what others did keeps what it has.
    Disagreement,
    /// Of what a session sent behind its multi-get only writes count, not what else changes an item.
    Changes,
    /// The other replicas forget what a meta command has changed at the decider.
    MetaFollow,
    /// A silent connection is never replaced.
    SecondOpinion,
    /// What a dead connection swallowed is believed to be lost.
    DeadEnding,
    /// A silent server whose keys have no other is asked all the same.
    MarkDownAlone,
    /// A read that brings much begins while other requests of its session are in service.
    BulkReadAlone,
    /// Of gets that share a message, one has no more values as soon as one of another comes.
    MissAtEnd,
    /// A write goes ahead of its own client's gets of the key that wait.
    OwnOrder,
    /// Those that share an `mg` read the opaque of the first.
    OwnOpaque,
    /// A get waits for the reply to an earlier one, whatever was written since.
    CoalesceOverWrites,
    /// Whether that is so is judged by what the get's own loop has written.
    SharedCounts,
    /// A get that has waited for its key to be filled is asked again, whatever its session has sent behind it.
    FillPastChange,
    /// A value that is kept is an answer, whatever was written since.
    NearOverWrites,
    /// A value that is kept is an answer to who has written its key and has no answer yet.
    NearOwnWrites,
    /// What a write has stored is kept, whatever other loops have written meanwhile.
    NearOtherWrites,
    /// A value that is to be asked about is answered without that.
    NearUnchecked,
    /// Where a key went is remembered beyond the table that led there.
    PlacementOfTable,
    /// A server that closes its connections at a question is asked it on each.
    ClosedQuestion,
    /// A write that has waited for its key is sent, however little of its time is left.
    Overdue,
    /// A write of a lent session begins although its key is held.
    LentHold,
    /// What one request of a lent session was denied, those after it are denied too.
    LentDenial,
}
