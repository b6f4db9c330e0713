//! Why a route has no equal, what is nearest to it, and what would have to change.

/// A row: the route, why it has no equal, what is nearest, what to do.
type Row = (&'static str, &'static str, &'static str, &'static str);

const ROWS: &[Row] = &[
    (
        "FailoverRoute",
        "Weir goes over to other copies of a key, not to another pool",
        "all the servers as one pool with `replicas = 2`: each key is on two of them, and one that is down is not missed",
        "write to all of them and read with the FailoverRoute (OperationSelectorRoute with AllSyncRoute for writes), or keep \
         its first child alone",
    ),
    (
        "FailoverWithExptimeRoute",
        "Weir writes to no other pool while a server is down",
        "its `normal` route with `on_failure = \"degrade\"` (keys of a server that is down are misses), or with `replicas = 2`",
        "replace it by its `normal` route",
    ),
    (
        "MissFailoverRoute",
        "what is written goes to its first child alone, so the others hold no copies",
        "one pool with `replicas` as many as servers, and reads at one of them",
        "use it for `get` alone, with AllSyncRoute over the same servers for writes (OperationSelectorRoute)",
    ),
    (
        "LatestRoute",
        "what is written goes to one server, which depends on the mcrouter",
        "one pool with `replicas` as many as servers, and reads at one of them",
        "use it for `get` alone, with AllSyncRoute over the same servers for writes (OperationSelectorRoute)",
    ),
    (
        "AllAsyncRoute",
        "it answers before any server has",
        "`write_policy = \"async\"`, which answers when one server has done it",
        "replace it by AllInitialRoute",
    ),
    (
        "WarmUpRoute",
        "Weir fills no pool from another",
        "one pool with `replicas = 2` and `read_repair = \"on\"`: a copy that is missing is put back from the other server",
        "replace it by its `warm` route, and by its `cold` route when that is warm",
    ),
    (
        "MigrateRoute",
        "Weir moves no keys at a given time",
        "two files, and a reload (SIGHUP) when it is time",
        "replace it by its `from` route before, and by its `to` route after",
    ),
    (
        "NullRoute",
        "Weir answers for no server that is not there",
        "a pool with `on_failure = \"degrade\"` whose server is down: reads are misses, writes are errors",
        "lead these keys to a pool, or let clients not ask for them",
    ),
    (
        "DevNullRoute",
        "Weir answers for no server that is not there",
        "a pool with `on_failure = \"degrade\"` whose server is down: reads are misses, writes are errors",
        "lead these keys to a pool, or let clients not ask for them",
    ),
    (
        "ErrorRoute",
        "Weir refuses no keys by their names",
        "a pool that is small: every key has one",
        "give a PoolRoute in its place",
    ),
    (
        "RandomRoute",
        "Weir writes a key where it will be read",
        "`read = \"spread\"` for keys with several copies: reads go to all of them in turn",
        "use it for `get` alone as LatestRoute, with AllSyncRoute over the same servers for writes",
    ),
    (
        "ShadowRoute",
        "Weir sends no copies of requests elsewhere",
        "the route without its `shadows`: clients get the same answers",
        "remove `shadows`; a shadow that is to be filled can be a replica",
    ),
    (
        "RateLimitRoute",
        "Weir has no limit on requests per second",
        "its `target` alone, with the limits of docs/operate/limits.md",
        "replace it by its `target`",
    ),
    (
        "LoggingRoute",
        "Weir logs no single requests this way",
        "its `target` alone, with `--trace` for a sample of the requests",
        "replace it by its `target`",
    ),
    (
        "ModifyKeyRoute",
        "Weir sends keys as they came",
        "its `target` alone; keys are then others than in mcrouter",
        "let clients send the keys that the servers hold, and replace it by its `target`",
    ),
    (
        "ModifyExptimeRoute",
        "Weir sends times to live as they came",
        "its `target` alone",
        "let clients send the times, and replace it by its `target`",
    ),
    (
        "PrefixSelectorRoute",
        "mcrouter looks at prefixes first, and here the route is inside another",
        "prefixes at the root, each with its own route",
        "put PrefixSelectorRoute outermost",
    ),
    (
        "OperationSelectorRoute",
        "Weir has one placement for all operations on a key",
        "writes to all servers of a pool, and reads at one of them",
        "use AllSyncRoute, AllMajorityRoute, AllFastestRoute or AllInitialRoute for writes, and a route over the same servers \
         for `get`",
    ),
];

/// What is said of a route of this type.
pub(super) fn of(kind: &str) -> String {
    let (why, nearest, change) = ROWS.iter().find(|row| row.0 == kind).map_or(
        (
            "Weir has no such route",
            "PoolRoute over the servers, or one of the routes of docs/operate/moving.md",
            "replace it by the route that it leads most keys to",
        ),
        |row| (row.1, row.2, row.3),
    );
    let kind = if kind.is_empty() { "a route without a type" } else { kind };
    with_reason(kind, why, nearest, change)
}

/// The same with a reason of its own.
pub(super) fn because(kind: &str, why: &str) -> String {
    let (nearest, change) = ROWS.iter().find(|row| row.0 == kind).map_or(
        ("PoolRoute over the servers of one pool", "give it the servers of one pool: \"Pool|NAME\""),
        |row| (row.2, row.3),
    );
    with_reason(kind, why, nearest, change)
}

fn with_reason(kind: &str, why: &str, nearest: &str, change: &str) -> String {
    format!("{kind} has no equal: {why}. Nearest: {nearest}. To convert, {change}")
}
