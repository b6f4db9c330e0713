//! What a route means in Weir: each key on one server of a pool, or every key on all of them.

use weir_routing::{Options, Placement};

use super::pools::Hosts;
use super::refusal;

/// What becomes of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Each key is on one of the hosts.
    One(Hosts, Options),
    /// Each request goes to all hosts, or to whichever of them answers.
    Any(Way, Hosts),
    /// Every key is on all hosts.
    Copies(Copies),
}

/// How a route treats its children.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Sync,
    Majority,
    Fastest,
    Initial,
    Latest,
    Failover,
    MissFailover,
}

/// Every key on all hosts, as Weir has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Copies {
    pub(super) hosts: Hosts,
    pub(super) options: Options,
    /// Weir's `write_policy`.
    pub(super) write_policy: &'static str,
    /// Weir's `read`.
    pub(super) read: &'static str,
}

/// The routes by their types' names, and Weir's `write_policy` and `read` for them.
const WAYS: &[(&str, Way, Option<&str>, &str)] = &[
    ("AllSyncRoute", Way::Sync, Some("all"), "primary"),
    ("AllMajorityRoute", Way::Majority, Some("quorum"), "primary"),
    ("AllFastestRoute", Way::Fastest, Some("first"), "nearest"),
    ("AllInitialRoute", Way::Initial, Some("async"), "primary"),
    ("LatestRoute", Way::Latest, None, "primary"),
    ("FailoverRoute", Way::Failover, None, "primary"),
    ("MissFailoverRoute", Way::MissFailover, None, "primary"),
];

impl Way {
    /// The way of a route of this type.
    pub(super) fn named(kind: &str) -> Option<Self> {
        WAYS.iter().find(|row| row.0 == kind).map(|row| row.1)
    }

    /// The route's type, and Weir's `write_policy` and `read`.
    pub(super) fn row(self) -> (&'static str, Option<&'static str>, &'static str) {
        let row = WAYS.iter().find(|row| row.1 == self).expect("each way has its row");
        (row.0, row.2, row.3)
    }

    /// What is not the same when it reads.
    pub(super) fn note_of_reads(self) -> Option<&'static str> {
        Some(match self {
            Self::Sync => "AllSyncRoute reads every server, and misses where one has no copy; Weir reads one",
            Self::Majority => "AllMajorityRoute reads every server, and says what most say; Weir reads one",
            Self::Fastest => {
                "AllFastestRoute reads every server; Weir reads the one that answered fastest of late"
            }
            Self::Initial => {
                "AllInitialRoute reads the first server; Weir spreads keys over all as their first"
            }
            Self::Latest => {
                "LatestRoute reads one server per mcrouter, and others on errors; Weir reads the first of a key's servers that is \
                 up (read = \"spread\" in [proxy]: all in turn)"
            }
            Self::Failover => {
                "FailoverRoute reads the servers in their order; Weir spreads keys over all as their first, and reads another when \
                 that is down"
            }
            Self::MissFailover => {
                "MissFailoverRoute asks all servers in their order until one has the key; Weir asks another where a key's first \
                 server is down or came back empty, and a key that the first alone has evicted is a miss"
            }
        })
    }

    /// What is not the same when it writes.
    pub(super) fn note_of_writes(self) -> Option<&'static str> {
        match self {
            Self::Sync => Some(
                "AllSyncRoute answers a write with an error while a server is down; Weir answers when all that are up have done it, \
                 and one that was down forgets what it missed before it is read again (replicas_required = \"all-configured\" in \
                 [proxy]: an error)",
            ),
            _ => None,
        }
    }
}

impl Copies {
    /// Every key on all of these hosts.
    pub(super) fn new(
        hosts: Hosts,
        options: Options,
        write_policy: &'static str,
        read: &'static str,
    ) -> Self {
        let options = Options { replicas: hosts.servers.len(), ..options };
        Self { hosts, options, write_policy, read }
    }

    /// All operations in this way.
    pub(super) fn of(way: Way, mut hosts: Hosts) -> Result<Self, String> {
        let (kind, write_policy, read) = way.row();
        let write_policy = write_policy.ok_or_else(|| refusal::of(kind))?;
        for note in way.note_of_writes().into_iter().chain(way.note_of_reads()) {
            hosts.note(note.to_owned());
        }
        Ok(Self::new(hosts, Options::new(Placement::McrouterCh3), write_policy, read))
    }
}
