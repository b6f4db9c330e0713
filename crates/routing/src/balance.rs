//! Which replica answers for which key of one request, so that the largest part is as small as placement allows.
//!
//! ```text
//!   key ──▶ group: the keys with the same list of servers ──▶ the least loaded of them so far
//!                       │ 3 of A, 2 of B                          (greedy; ties go to the earlier in the list)
//!                       └─ repair: while a chain of exchanges leads from a server with the most keys to one with two
//!                          fewer, keys move along it, several at once
//! ```
//!
//! Without a chain the largest part cannot be smaller: all keys at the servers that can be reached from it have no replica
//! elsewhere. Greedy alone is mostly there already, so a repair mostly costs nothing or one look at the groups; a flow
//! computation would cost its full price each time. Keys with equal lists move together, which keeps repairs few where an
//! unlucky order of the keys leads greedy far astray. The search is given up when it has cost a fixed multiple of the keys, so
//! a plan is linear in the keys whatever they are.

/// Spreads the keys of one request over servers. It keeps its memory from request to request.
#[derive(Debug, Default)]
pub struct Balance {
    /// How many servers each list has.
    width: usize,
    /// For each key its group.
    keys: Vec<u32>,
    groups: Vec<Group>,
    /// The lists as they were given, `width` servers for each group.
    lists: Vec<u16>,
    /// The servers of each list that may be asked, in their order, in the first places of `width`.
    members: Vec<u16>,
    /// How many keys of the group each of its members answers for.
    counts: Vec<u32>,
    /// From the hash of a list to one more than the number of its group. A power of two long.
    index: Vec<u32>,
    /// For each server how many keys it answers for.
    loads: Vec<u32>,
    /// The servers that are a member of any group.
    used: Vec<u16>,
    /// For each server whether it is one of them.
    is_used: Vec<bool>,
    repair: Repair,
}

/// Keys with the same list of servers.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// How many of its servers may be asked.
    members: u32,
    /// Where in `index` it is found.
    place: u32,
    /// Which member answers for the next key, when keys are handed out.
    cursor: u32,
}

/// What a search for a chain of exchanges needs.
#[derive(Debug, Default)]
struct Repair {
    /// `starts[server]..starts[server + 1]` are the places in `entries` of the groups that the server is a member of.
    starts: Vec<u32>,
    /// Positions in `members`.
    entries: Vec<u32>,
    /// For each server how it was reached.
    reached: Vec<Reached>,
    queue: Vec<u16>,
    /// Groups whose members were all reached, by the number of the search.
    searched: Vec<u32>,
    search: u32,
    /// How many members may still be looked at.
    budget: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    No,
    /// A chain may begin here.
    Start,
    /// A key of a group can move from one member of it to another, both as positions in `members`.
    By {
        from: u32,
        to: u32,
    },
}

impl Balance {
    /// Forgets the last request. Lists of the next one have `width` servers each, whose numbers are below `servers`.
    pub fn begin(&mut self, servers: usize, width: usize) {
        for group in &self.groups {
            self.index[group.place as usize] = 0;
        }
        for &server in &self.used {
            self.loads[usize::from(server)] = 0;
            self.is_used[usize::from(server)] = false;
        }
        self.keys.clear();
        self.groups.clear();
        self.lists.clear();
        self.members.clear();
        self.counts.clear();
        self.used.clear();
        self.width = width;
        self.loads.resize(servers, 0);
        self.is_used.resize(servers, false);
    }

    /// Adds a key that the servers of `list` hold. Those that `may_be_asked` answer for it; if none may, the first of the list
    /// stands for it all the same, and the caller will find that it cannot be asked.
    pub fn add(&mut self, list: &[u16], may_be_asked: impl Fn(u16) -> bool) {
        debug_assert_eq!(list.len(), self.width);
        let group = self.group_of(list, may_be_asked);
        let start = group * self.width;
        let members = &self.members[start..start + self.groups[group].members as usize];
        let least = (0..members.len()).min_by_key(|&at| self.loads[usize::from(members[at])]);
        let at = least.expect("a group has at least one member");
        self.loads[usize::from(members[at])] += 1;
        self.counts[start + at] += 1;
        self.keys.push(group as u32);
    }

    /// Evens out what was added.
    pub fn finish(&mut self) {
        let mut repaired = false;
        while self.largest() > self.keys.len().div_ceil(self.used.len().max(1)) as u32 {
            if !repaired {
                repaired = true;
                self.repair.begin(&self.groups, &self.members, self.width, self.loads.len());
                self.repair.budget = WORK_MIN + WORK_PER_KEY * self.width * self.keys.len();
            }
            let Some(end) = self.find_chain() else { break };
            self.move_along(end);
        }
        for group in &mut self.groups {
            group.cursor = 0;
        }
    }

    /// After [`Self::finish`]: the server of the key that was added as number `key`. To be asked for each key once, in order.
    pub fn take(&mut self, key: usize) -> u16 {
        let group = self.keys[key] as usize;
        let start = group * self.width;
        let cursor = &mut self.groups[group].cursor;
        while self.counts[start + *cursor as usize] == 0 {
            *cursor += 1;
        }
        let at = start + *cursor as usize;
        self.counts[at] -= 1;
        self.members[at]
    }

    /// How much memory it keeps, in bytes.
    pub fn capacity(&self) -> usize {
        let Self { keys, groups, lists, members, counts, index, loads, used, repair, .. } = self;
        let Repair { starts, entries, reached, queue, searched, .. } = repair;
        let words = [keys, counts, index, loads, starts, entries, searched];
        let halves = [lists, members, used, queue];
        words.iter().map(|it| it.capacity() * size_of::<u32>()).sum::<usize>()
            + halves.iter().map(|it| it.capacity() * size_of::<u16>()).sum::<usize>()
            + groups.capacity() * size_of::<Group>()
            + reached.capacity() * size_of::<Reached>()
    }

    /// How many keys the server with the most answers for.
    fn largest(&self) -> u32 {
        self.used.iter().map(|&server| self.loads[usize::from(server)]).max().unwrap_or(0)
    }

    fn group_of(&mut self, list: &[u16], may_be_asked: impl Fn(u16) -> bool) -> usize {
        if self.index.len() < 2 * (self.groups.len() + 1) {
            self.grow_index();
        }
        let mut place = self.first_place(list);
        loop {
            match self.index[place] {
                0 => break,
                known if &self.lists[(known as usize - 1) * self.width..][..self.width] == list => {
                    return known as usize - 1;
                }
                _ => place = (place + 1) & (self.index.len() - 1),
            }
        }
        let group = self.groups.len();
        self.index[place] = group as u32 + 1;
        self.lists.extend_from_slice(list);
        let start = self.members.len();
        self.members.extend(list.iter().filter(|&&server| may_be_asked(server)));
        if self.members.len() == start {
            self.members.push(list[0]);
        }
        for &server in &self.members[start..] {
            if !std::mem::replace(&mut self.is_used[usize::from(server)], true) {
                self.used.push(server);
            }
        }
        let members = (self.members.len() - start) as u32;
        self.members.resize(start + self.width, 0);
        self.counts.resize(start + self.width, 0);
        self.groups.push(Group { members, place: place as u32, cursor: 0 });
        group
    }

    fn grow_index(&mut self) {
        let len = (2 * self.index.len()).max(INDEX_MIN);
        self.index.clear();
        self.index.resize(len, 0);
        for group in 0..self.groups.len() {
            let mut place = self.first_place(&self.lists[group * self.width..][..self.width]);
            while self.index[place] != 0 {
                place = (place + 1) & (len - 1);
            }
            self.index[place] = group as u32 + 1;
            self.groups[group].place = place as u32;
        }
    }

    /// Where in `index` the search for a list begins: the upper bits of a multiplicative hash.
    fn first_place(&self, list: &[u16]) -> usize {
        let mix = |hash: u64, &server: &u16| (hash.rotate_left(5) ^ u64::from(server)).wrapping_mul(GOLDEN);
        let hash = list.iter().fold(0, mix);
        (hash >> 32) as usize & (self.index.len() - 1)
    }

    /// The last server of a shortest chain from one with the most keys to one with at least two fewer.
    fn find_chain(&mut self) -> Option<u16> {
        let largest = self.largest();
        let Self { groups, members, counts, loads, used, repair, width, .. } = self;
        repair.search += 1;
        repair.queue.clear();
        for &server in &*used {
            let starts = loads[usize::from(server)] == largest;
            repair.reached[usize::from(server)] = if starts { Reached::Start } else { Reached::No };
            if starts {
                repair.queue.push(server);
            }
        }
        let mut next = 0;
        while let Some(&server) = repair.queue.get(next) {
            next += 1;
            for entry in repair.starts[usize::from(server)]..repair.starts[usize::from(server) + 1] {
                let from = repair.entries[entry as usize];
                let group = from as usize / *width;
                repair.budget = repair.budget.checked_sub(1)?;
                if counts[from as usize] == 0 || repair.searched[group] == repair.search {
                    continue;
                }
                repair.searched[group] = repair.search;
                for to in (group * *width) as u32..(group * *width) as u32 + groups[group].members {
                    repair.budget = repair.budget.checked_sub(1)?;
                    let other = members[to as usize];
                    if repair.reached[usize::from(other)] != Reached::No {
                        continue;
                    }
                    repair.reached[usize::from(other)] = Reached::By { from, to };
                    if loads[usize::from(other)] + 2 <= largest {
                        return Some(other);
                    }
                    repair.queue.push(other);
                }
            }
        }
        None
    }

    /// Moves as many keys along the chain to `end` as its links have, and as make the two ends equal.
    fn move_along(&mut self, end: u16) {
        let Self { members, counts, loads, repair: Repair { reached, .. }, .. } = self;
        let (members, reached) = (&*members, &*reached);
        let links = |mut server: u16| {
            std::iter::from_fn(move || match reached[usize::from(server)] {
                Reached::By { from, to } => {
                    server = members[from as usize];
                    Some((from as usize, to as usize, server))
                }
                Reached::Start | Reached::No => None,
            })
        };
        let (mut moved, mut start) = (u32::MAX, end);
        for (from, _, server) in links(end) {
            moved = moved.min(counts[from]);
            start = server;
        }
        moved = moved.min((loads[usize::from(start)] - loads[usize::from(end)]) / 2);
        for (from, to, _) in links(end) {
            counts[from] -= moved;
            counts[to] += moved;
        }
        loads[usize::from(start)] -= moved;
        loads[usize::from(end)] += moved;
    }
}

impl Repair {
    /// Lists for each server the groups that it is a member of.
    fn begin(&mut self, groups: &[Group], members: &[u16], width: usize, servers: usize) {
        self.starts.clear();
        self.starts.resize(servers + 1, 0);
        let positions = || {
            let groups = (0u32..).zip(groups);
            groups.flat_map(|(group, it)| group * width as u32..group * width as u32 + it.members)
        };
        for at in positions() {
            self.starts[usize::from(members[at as usize]) + 1] += 1;
        }
        for server in 0..servers {
            self.starts[server + 1] += self.starts[server];
        }
        self.entries.clear();
        self.entries.resize(self.starts[servers] as usize, 0);
        for at in positions() {
            let next = &mut self.starts[usize::from(members[at as usize])];
            self.entries[*next as usize] = at;
            *next += 1;
        }
        // Each start has moved to the next one's place.
        self.starts.rotate_right(1);
        self.starts[0] = 0;
        self.reached.resize(servers, Reached::No);
        self.searched.clear();
        self.searched.resize(groups.len(), 0);
        self.search = 0;
    }
}

/// Members that repairs may look at for each place in the list of each key; with it the time for a plan stays linear.
const WORK_PER_KEY: usize = 8;

/// Members that repairs may always look at: enough for the best plan of any request of some dozens of keys.
const WORK_MIN: usize = 4096;

/// The smallest index.
const INDEX_MIN: usize = 16;

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The servers of the keys with these lists, where the servers in `down` may not be asked.
    fn plan(balance: &mut Balance, servers: usize, lists: &[Vec<u16>], down: &[u16]) -> Vec<u16> {
        balance.begin(servers, lists[0].len());
        for list in lists {
            balance.add(list, |server| !down.contains(&server));
        }
        balance.finish();
        (0..lists.len()).map(|key| balance.take(key)).collect()
    }

    fn largest(servers: usize, plan: &[u16]) -> usize {
        (0..servers as u16).map(|server| plan.iter().filter(|&&it| it == server).count()).max().unwrap_or(0)
    }

    /// The smallest largest part, by trying every way.
    fn best(servers: usize, choices: &[Vec<u16>], loads: &mut Vec<usize>, bound: usize) -> usize {
        loads.resize(servers, 0);
        let Some((first, rest)) = choices.split_first() else { return *loads.iter().max().unwrap_or(&0) };
        let mut bound = bound;
        for &server in first {
            let server = usize::from(server);
            if loads[server] + 1 >= bound {
                continue;
            }
            loads[server] += 1;
            bound = bound.min(best(servers, rest, loads, bound));
            loads[server] -= 1;
        }
        bound
    }

    prop_compose! {
        fn requests()(servers in 1usize..6)(
            servers in Just(servers),
            lists in (1..=servers.min(3)).prop_flat_map(move |width| prop::collection::vec(
                prop::sample::subsequence((0..servers as u16).collect::<Vec<_>>(), width).prop_shuffle(), 1..9)),
            down in prop::sample::subsequence((0..servers as u16).collect::<Vec<_>>(), 0..=servers),
        ) -> (usize, Vec<Vec<u16>>, Vec<u16>) {
            (servers, lists, down)
        }
    }

    proptest! {
        #[test]
        fn the_largest_part_is_as_small_as_any_way_makes_it(first in requests(), (servers, lists, down) in requests()) {
            let mut balance = Balance::default();
            // Nothing of an earlier request is left.
            plan(&mut balance, first.0, &first.1, &first.2);
            let plan = plan(&mut balance, servers, &lists, &down);
            let choices: Vec<Vec<u16>> = lists
                .iter()
                .map(|list| {
                    let live: Vec<u16> = list.iter().copied().filter(|it| !down.contains(it)).collect();
                    if live.is_empty() { list[..1].to_vec() } else { live }
                })
                .collect();
            for (server, choices) in plan.iter().zip(&choices) {
                prop_assert!(choices.contains(server));
            }
            prop_assert_eq!(largest(servers, &plan), best(servers, &choices, &mut vec![], lists.len() + 1));
        }
    }

    #[test]
    fn an_unlucky_order_is_repaired_in_few_moves() {
        // Greedy halves the first thousand between both and has nowhere to go with the second.
        let mut lists = vec![vec![0, 1]; 1000];
        lists.extend(vec![vec![0, 2]; 1000]);
        let mut balance = Balance::default();
        let plan = plan(&mut balance, 3, &lists, &[2]);
        assert_eq!(largest(3, &plan), 1000);
        let spent = WORK_MIN + WORK_PER_KEY * 2 * 2000 - balance.repair.budget;
        assert!(spent < 50, "{spent} members were looked at");
    }

    #[test]
    fn ties_go_to_the_primary() {
        let lists = [vec![2, 0], vec![1, 2], vec![0, 1]];
        assert_eq!(plan(&mut Balance::default(), 3, &lists, &[]), [2, 1, 0]);
    }

    #[test]
    fn large_pools_are_nearly_even_and_the_work_is_bounded() {
        let servers = 1024u16;
        let lists: Vec<Vec<u16>> = (0..10_000u32)
            .map(|key| {
                let first = (key.wrapping_mul(2_654_435_761) >> 16) as u16 % servers;
                vec![first, (first + 1 + (key % 7) as u16) % servers]
            })
            .collect();
        let mut balance = Balance::default();
        let plan = plan(&mut balance, servers.into(), &lists, &[]);
        assert!(largest(servers.into(), &plan) <= 10_000usize.div_ceil(servers.into()) + 1);
        let kept = balance.capacity();
        for list in [vec![vec![0, 1]; 3], lists] {
            super::tests::plan(&mut balance, servers.into(), &list, &[]);
        }
        assert_eq!(balance.capacity(), kept, "a second request needs no more memory");
    }
}
