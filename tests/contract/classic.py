"""The classic commands, in the order of memcached's protocol text."""

from __future__ import annotations

from .rows import BOTH, MORTAL, NOTHING, NUMBER, TTL_S, VALUE, Family, Row, line

LARGE = (1 << 20) + 1
LONG_KEY = "k" * 251


def storage() -> Family:
    rows = [
        Row("set, new", line("set key 5 0 3 / new")),
        Row("set, over another", line("set key 5 0 3 / new"), VALUE),
        Row("set, with an expiry time", line(f"set key 5 {TTL_S} 3 / new")),
        Row("set, expired at once", line("set key 5 -1 3 / new"), VALUE),
        Row("set, empty", line("set key 5 0 0 / "), VALUE),
        Row("set noreply", line("set key 5 0 3 noreply / new"), VALUE),
        Row("set, too large", b"set key 5 0 %d\r\n%b\r\n" % (LARGE, bytes(LARGE)), VALUE,
            shown=f"`set key 5 0 {LARGE} ⏎` and as many bytes"),
        Row("set, length not a number", line("set key 5 0 abc"), VALUE),
        Row("set, negative length", line("set key 5 0 -1"), VALUE),
        Row("set, flags above 32 bits", line("set key 4294967296 0 3 / new"), VALUE),
        Row("set, longer than its length", line("set key 5 0 3 / newer"), VALUE),
        Row("set, key too long", line(f"set {LONG_KEY} 5 0 3 / new"),
            shown="`set kkk… 5 0 3 ⏎ new` (a key of 251 bytes)"),
        Row("set, a word missing", line("set key 5 0"), VALUE),
    ]  # fmt: skip
    for verb in ("add", "replace", "append", "prepend"):
        rows += [
            Row(f"{verb}, present", line(f"{verb} key 5 0 3 / new"), VALUE),
            Row(f"{verb}, absent", line(f"{verb} key 5 0 3 / new")),
            Row(f"{verb} noreply, present", line(f"{verb} key 5 0 3 noreply / new"), VALUE),
            Row(f"{verb} noreply, absent", line(f"{verb} key 5 0 3 noreply / new")),
        ]
    rows += [
        Row("append, with an expiry time", line(f"append key 5 {TTL_S} 3 / new"), VALUE),
        Row("replace, with an expiry time", line(f"replace key 5 {TTL_S} 3 / new"), VALUE),
        Row("add, too large", b"add key 5 0 %d\r\n%b\r\n" % (LARGE, bytes(LARGE)), VALUE,
            shown=f"`add key 5 0 {LARGE} ⏎` and as many bytes"),
        Row("cas, unchanged since", line("cas key 5 0 3 <cas> / new"), VALUE),
        Row("cas, changed since", line("cas key 5 0 3 <lower> / new"), VALUE),
        Row("cas, absent", line("cas key 5 0 3 1 / new"), why="tokens"),
        Row("cas noreply, unchanged since", line("cas key 5 0 3 <cas> noreply / new"), VALUE),
        Row("cas noreply, changed since", line("cas key 5 0 3 <lower> noreply / new"), VALUE),
        Row("cas, not a number", line("cas key 5 0 3 abc / new"), VALUE),
    ]  # fmt: skip
    return Family.of("Storage", rows)


def retrieval() -> Family:
    rows = [
        Row("get, present", line("get key"), VALUE),
        Row("get, absent", line("get key")),
        Row("get, several keys", line("get other absent key other"), BOTH),
        Row("get, no key", line("get")),
        Row("get, key too long", line(f"get {LONG_KEY}"), shown="`get kkk…` (a key of 251 bytes)"),
        Row("bget (an old name of get)", line("bget key"), VALUE),
        Row("gets, present", line("gets key"), VALUE),
        Row("gets, absent", line("gets key")),
        Row("gets, several keys", line("gets other absent key"), BOTH),
        Row("gat, present", line(f"gat {TTL_S} key"), VALUE),
        Row("gat, absent", line(f"gat {TTL_S} key")),
        Row("gat, several keys", line(f"gat {TTL_S} other absent key"), BOTH),
        Row("gat, expired at once", line("gat -1 key"), VALUE),
        Row("gat, expiry time not a number", line("gat abc key"), VALUE),
        Row("gats, present", line(f"gats {TTL_S} key"), VALUE),
        Row("gats, absent", line(f"gats {TTL_S} key")),
    ]
    return Family.of("Retrieval", rows)


def deletion_arithmetic_touch() -> Family:
    rows = [
        Row("delete, present", line("delete key"), VALUE),
        Row("delete, absent", line("delete key")),
        Row("delete noreply", line("delete key noreply"), VALUE),
        Row("delete, time 0", line("delete key 0"), VALUE),
        Row("delete, other time", line("delete key 5"), VALUE),
    ]
    for verb, wraps, beyond in (("incr", "18446744073709551615", "18446744073709551616"), ("decr", "11", "-1")):
        rows += [
            Row(f"{verb}, present", line(f"{verb} key 3"), NUMBER),
            Row(f"{verb}, absent", line(f"{verb} key 3")),
            Row(f"{verb} noreply", line(f"{verb} key 3 noreply"), NUMBER),
            Row(f"{verb}, past the end", line(f"{verb} key {wraps}"), NUMBER),
            Row(f"{verb}, value not a number", line(f"{verb} key 3"), VALUE),
            Row(f"{verb}, amount not a number", line(f"{verb} key abc"), NUMBER),
            Row(f"{verb}, amount out of range", line(f"{verb} key {beyond}"), NUMBER),
        ]
    rows += [
        Row("decr, one digit less", line("decr key 1"), NUMBER),
        Row("touch, present", line(f"touch key {TTL_S}"), VALUE),
        Row("touch, absent", line(f"touch key {TTL_S}")),
        Row("touch, for ever", line("touch key 0"), MORTAL),
        Row("touch, expired at once", line("touch key -1"), VALUE),
        Row("touch noreply", line(f"touch key {TTL_S} noreply"), VALUE),
        Row("touch, not a number", line("touch key abc"), VALUE),
    ]
    return Family.of("Deletion, arithmetic, touch", rows)


def connection_and_mistakes() -> Family:
    rows = [
        Row("version", line("version")),
        Row("verbosity", line("verbosity 0")),
        Row("verbosity noreply", line("verbosity 0 noreply")),
        Row("verbosity, no level", line("verbosity")),
        Row("quit", line("quit")),
        Row("unknown command", line("no_such_command key")),
        Row("empty line", line("")),
        Row("a command in capitals", line("GET key"), VALUE),
        Row("a line from a browser", line("GET /index.html HTTP/1.1"), why="other protocols"),
        Row("another line that names HTTP", line("no_such_command HTTP/1.1")),
    ]
    return Family.of("Connection, and mistakes", rows)


ALLOWED = "--allow-server-commands"


def whole_server() -> Family:
    def refused(what: str, *, takes_over: bool = False) -> Row:
        return Row(what, line(what), NOTHING, why="whole server", takes_over=takes_over)

    def allowed(what: str) -> Row:
        return Row(f"{what}, with `{ALLOWED}`", line(what), NOTHING, options=(ALLOWED,))

    rows = [
        Row("flush_all", line("flush_all"), BOTH, why="flush"),
        *(
            Row(f"{what}, with `--allow-flush`", line(sent), BOTH, options=("--allow-flush",))
            for what, sent in (
                ("flush_all", "flush_all"),
                ("flush_all noreply", "flush_all noreply"),
                ("flush_all later", f"flush_all {TTL_S}"),
                ("flush_all, not a number", "flush_all abc"),
            )
        ),
        Row("stats", line("stats"), why="statistics", statistics=True),
        Row("stats settings", line("stats settings"), why="statistics", statistics=True),
        *(
            Row(f"stats {name}", line(f"stats {name}"), VALUE, why="no items", statistics=True)
            for name in ("items", "slabs", "sizes", "conns", "detail dump")
        ),
        Row("stats cachedump 30 10", line("stats cachedump 30 10"), VALUE, why="one server's", statistics=True),
        Row("stats detail on", line("stats detail on"), why="no items"),
        Row("stats reset", line("stats reset"), why="one server's"),
        Row("stats, unknown topic", line("stats no_such_topic"), why="one server's"),
        refused("cache_memlimit 64"),
        refused("slabs reassign 1 2"),
        refused("slabs automove 0"),
        refused("lru mode flat"),
        refused("lru tune 10 25 0.1 2.0"),
        refused("lru temp_ttl 60"),
        refused("lru_crawler disable"),
        refused("lru_crawler sleep 100"),
        refused("lru_crawler tocrawl 10"),
        refused("lru_crawler crawl all"),
        *(
            allowed(what)
            for what in (
                "cache_memlimit 64",
                "cache_memlimit 64 noreply",
                "cache_memlimit 1",
                "slabs reassign 1 2",
                "slabs automove 0",
                "lru temp_ttl 60",
                "lru_crawler sleep 100",
                "lru_crawler crawl all",
            )
        ),
        refused("lru_crawler metadump all", takes_over=True),
        refused("lru_crawler mgdump all"),
        refused("watch fetchers", takes_over=True),
        refused("shutdown"),
        Row("refresh_certs", line("refresh_certs"), why="unknown"),
        Row("extstore", line("extstore free_memchunks 1 1"), why="unknown"),
    ]
    return Family.of("Commands to a whole server", rows)
