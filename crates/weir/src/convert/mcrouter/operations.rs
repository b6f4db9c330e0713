//! Routes by operation: what reads and writes mean together.

use weir_routing::{Options, Placement};

use super::meaning::{Copies, Meaning};
use super::pools::Hosts;

/// What these policies are to each other: the first waits for most.
const STRICTEST_FIRST: [&str; 4] = ["all", "quorum", "first", "async"];

const READS: &[&str] = &["get", "gets", "gat", "gats", "metaget", "lease-get"];
const WRITES: &[&str] =
    &["set", "add", "replace", "append", "prepend", "cas", "incr", "decr", "delete", "touch", "lease-set"];

const WITHOUT_POLICY: &str =
    "operations without a policy get no answer from a server in mcrouter; Weir serves all";

/// Routes by operation.
pub(super) struct Operations<'a> {
    /// By the operation's name.
    pub(super) stated: Vec<(&'a str, Meaning)>,
    /// Of the others.
    pub(super) default: Option<Meaning>,
}

impl Operations<'_> {
    /// What they mean together; or why that has no equal.
    pub(super) fn meaning(self) -> Result<Meaning, String> {
        let of = |operation: &str| {
            let stated = self.stated.iter().find(|(name, _)| *name == operation).map(|(_, meaning)| meaning);
            stated.or(self.default.as_ref())
        };
        let reading = of("get").ok_or("it has no route for `get`")?;
        let setting = of("set").ok_or("it has no route for `set`")?;
        for (name, meaning) in &self.stated {
            if READS.contains(name) && meaning != reading {
                return Err(format!("`{name}` goes another way than `get`"));
            }
        }
        let writings = || {
            let writes = self.stated.iter().filter(|(name, _)| WRITES.contains(name));
            writes.map(|(name, meaning)| (*name, meaning)).chain([("set", setting)])
        };
        if let Meaning::One(hosts, options) = setting {
            let others = writings().chain([("get", reading)]);
            let others = others.chain(self.default.iter().map(|default| ("default_policy", default)));
            if let Some((name, _)) = others.into_iter().find(|(_, meaning)| *meaning != setting) {
                let name_of_pool = &hosts.name;
                return Err(format!(
                    "`set` goes to one server of pool {name_of_pool}, and `{name}` another way"
                ));
            }
            let mut hosts = hosts.clone();
            if self.default.is_none() {
                hosts.note(WITHOUT_POLICY.to_owned());
            }
            return Ok(Meaning::One(hosts, options.clone()));
        }
        self.copies(reading, writings())
    }

    fn copies<'a>(
        &self,
        reading: &Meaning,
        writings: impl Iterator<Item = (&'a str, &'a Meaning)>,
    ) -> Result<Meaning, String> {
        let mut notes = Vec::new();
        let mut hosts: Option<&Hosts> = None;
        let mut policies = Vec::new();
        for (name, meaning) in writings {
            let Meaning::Any(way, written) = meaning else {
                return Err(format!("`set` goes to all servers, and `{name}` does not"));
            };
            let (kind, policy, _) = way.row();
            let policy =
                policy.ok_or_else(|| format!("`{name}` goes by {kind}, which writes to one server alone"))?;
            if hosts.is_some_and(|hosts| !hosts.are(written)) {
                return Err(format!("`{name}` goes to other servers than the writes before it"));
            }
            hosts = Some(written);
            policies.push(policy);
            notes.extend(way.note_of_writes());
        }
        let mut hosts = hosts.ok_or("it has no route for writes")?.clone();
        let write_policy = STRICTEST_FIRST.into_iter().find(|policy| policies.contains(policy));
        let write_policy = write_policy.expect("each policy is one of these");
        if policies.iter().any(|policy| *policy != write_policy) {
            notes.push("writes go by different routes, of which Weir takes the one that waits for most");
        }
        let (read, options) = match reading {
            Meaning::Any(way, read) if read.are(&hosts) => {
                notes.extend(way.note_of_reads());
                (way.row().2, Options::new(Placement::McrouterCh3))
            }
            Meaning::One(read, options) if read.are(&hosts) => {
                hosts = Hosts { notes: hosts.notes, ..read.clone() };
                ("primary", options.clone())
            }
            _ => return Err("`get` goes to other servers than `set`".to_owned()),
        };
        self.check_default(&hosts, &mut notes)?;
        for note in notes {
            hosts.note(note.to_owned());
        }
        Ok(Meaning::Copies(Copies::new(hosts, options, write_policy, read)))
    }

    /// Operations that are not stated go by the default, which may not lead elsewhere.
    fn check_default(&self, hosts: &Hosts, notes: &mut Vec<&'static str>) -> Result<(), String> {
        match &self.default {
            None => notes.push(WITHOUT_POLICY),
            Some(Meaning::Any(_, others) | Meaning::One(others, _)) if others.are(hosts) => {
                notes.push("operations that go by default_policy go to all copies, as the others do");
            }
            Some(_) => return Err("`default_policy` leads to other servers".to_owned()),
        }
        Ok(())
    }
}
