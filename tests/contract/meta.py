"""The meta commands, each with every flag of memcached's protocol text."""

from __future__ import annotations

from .rows import (
    BINARY_NUMBER,
    BINARY_VALUE,
    MORTAL,
    NOTHING,
    NUMBER,
    STALE,
    TTL_S,
    VALUE,
    Family,
    Holdings,
    Row,
    line,
)

BASE64 = "AP8ga2V5"
"""`rows.BINARY`: a zero byte, 0xff, a space and `key`."""
PLAIN = "a2V5"
"""`key` in base64."""


def noop_and_debug() -> Family:
    rows = [
        Row("mn", line("mn")),
        Row("me, present", line("me key"), VALUE),
        Row("me, absent", line("me key")),
        Row("me `b`: key in base64", line(f"me {BASE64} b"), BINARY_VALUE),
        Row("me, no key", line("me")),
    ]
    return Family.of("Meta no-op and meta debug", rows)


def get() -> Family:
    def flag(what: str, flags: str, before: Holdings = VALUE) -> Row:
        return Row(f"mg {what}", line(f"mg key {flags}"), before)

    rows = [
        Row("mg, present", line("mg key"), VALUE),
        Row("mg, absent", line("mg key")),
        flag("`b`: key in base64", "v", NOTHING),
        flag("`c`: cas", "c"),
        flag("`f`: client flags", "f"),
        Row("mg `h`: hit before", line("mg key h / mg key h"), VALUE),
        flag("`k`: key", "k"),
        flag("`l`: time since last access", "l"),
        flag("`O`: opaque", "Otoken v"),
        flag("`O`: opaque, absent", "Otoken v", NOTHING),
        flag("`q`: quiet, present", "q v"),
        flag("`q`: quiet, absent", "q v", NOTHING),
        Row("mg `q`: quiet, in a pipeline", line("mg other q v / mg key q v k / mn"), VALUE),
        flag("`s`: size", "s"),
        flag("`t`: TTL, none", "t"),
        flag("`t`: TTL", "t", MORTAL),
        Row("mg `u`: no bump", line("mg key u / mg key h"), VALUE),
        flag("`v`: value", "v"),
        flag("`v`: value, absent", "v", NOTHING),
        flag("`N`: vivify, absent", f"N{TTL_S} v", NOTHING),
        flag("`N`: vivify, present", f"N{TTL_S} v"),
        Row("mg `N`: vivify, twice", line(f"mg key N{TTL_S} v / mg key N{TTL_S} v"), NOTHING),
        flag("`R`: recache, TTL below", f"R{2 * TTL_S} v t", MORTAL),
        flag("`R`: recache, TTL above", "R30 v t", MORTAL),
        flag("`T`: update the TTL", f"T{TTL_S} v"),
        flag("`T`: update the TTL, absent", f"T{TTL_S} v", NOTHING),
        flag("`T`: expired at once", "T-1 v"),
        flag("`P`: ignored", "Ppath v"),
        flag("`L`: ignored", "Lpath/ v"),
        flag("of a stale item", "v", STALE),
        Row("mg of a stale item, twice", line("mg key v / mg key v"), STALE),
        flag("several flags", "s v t f k Otoken", MORTAL),
        flag("unknown flag", "!"),
        flag("a flag twice", "v v"),
        Row("mg, no key", line("mg")),
    ]
    base64 = [
        Row("mg `b`: key in base64", line(f"mg {BASE64} b v k"), BINARY_VALUE),
        Row("mg `b`: a plain key in base64", line(f"mg {PLAIN} b v k"), VALUE, why="echo"),
        Row("mg `b`: vivify a binary key", line(f"mg {BASE64} b N{TTL_S} v"), why="forged"),
        Row("mg `b`: not base64", line("mg !!!! b v"), VALUE),
    ]
    rows[2:3] = base64
    return Family.of("Meta get", rows)


def set_() -> Family:
    def flag(what: str, flags: str, before: Holdings = VALUE) -> Row:
        return Row(f"ms {what}", line(f"ms key 3 {flags} / new"), before)

    rows = [
        Row("ms, new", line("ms key 3 / new")),
        Row("ms, over another", line("ms key 3 / new"), VALUE),
        Row("ms `b`: key in base64", line(f"ms {BASE64} 3 b / new"), BINARY_VALUE),
        Row("ms `b`: a plain key in base64", line(f"ms {PLAIN} 3 b k / new"), VALUE),
        flag("`c`: cas", "c"),
        flag("`C`: compare cas, equal", "C<cas>"),
        flag("`C`: compare cas, not equal", "C<lower>"),
        Row("ms `C`: compare cas, absent", line("ms key 3 C1 / new"), why="tokens"),
        flag("`F`: client flags", "F5"),
        flag("`I`: invalidate, cas lower", "I C<lower>"),
        flag("`I`: invalidate, cas higher", "I C<higher>"),
        flag("`k`: key", "k"),
        flag("`O`: opaque", "Otoken"),
        flag("`q`: quiet, stored", "q"),
        flag("`q`: quiet, not stored", "q ME"),
        flag("`T`: TTL", f"T{TTL_S}"),
        flag("`T`: expired at once", "T-1"),
    ]
    for mode, name in (("E", "add"), ("A", "append"), ("P", "prepend"), ("R", "replace"), ("S", "set")):
        rows += [
            flag(f"`M{mode}`: {name}, present", f"M{mode}"),
            flag(f"`M{mode}`: {name}, absent", f"M{mode}", NOTHING),
        ]
    rows += [
        flag("`MA`: append with a cas, equal", "MA C<cas>"),
        flag("`M`: unknown mode", "M!"),
        flag("`P`: ignored", "Ppath"),
        flag("`L`: ignored", "Lpath/"),
        flag("over a stale item", "C<cas>", STALE),
        flag("unknown flag", "!"),
        Row("ms, too large", b"ms key %d\r\n%b\r\n" % ((1 << 20) + 1, bytes((1 << 20) + 1)), VALUE,
            shown=f"`ms key {(1 << 20) + 1} ⏎` and as many bytes"),
        Row("ms, length not a number", line("ms key abc"), VALUE),
        Row("ms, longer than its length", line("ms key 3 / newer"), VALUE),
    ]  # fmt: skip
    return Family.of("Meta set", rows)


def delete() -> Family:
    def flag(what: str, flags: str, before: Holdings = VALUE) -> Row:
        return Row(f"md {what}", line(f"md key {flags}"), before)

    rows = [
        Row("md, present", line("md key"), VALUE),
        Row("md, absent", line("md key")),
        Row("md `b`: key in base64", line(f"md {BASE64} b k"), BINARY_VALUE),
        flag("`C`: compare cas, equal", "C<cas>"),
        flag("`C`: compare cas, not equal", "C<lower>"),
        Row("md `C`: compare cas, absent", line("md key C1"), why="tokens"),
        flag("`I`: mark as stale", "I"),
        flag("`I`: mark as stale, absent", "I", NOTHING),
        flag("`I` with `T`: mark as stale, with a TTL", f"I T{TTL_S}"),
        flag("`I` with `C`: mark as stale, cas not equal", "I C<lower>"),
        flag("`k`: key", "k"),
        flag("`O`: opaque", "Otoken"),
        flag("`q`: quiet, present", "q"),
        flag("`q`: quiet, absent", "q", NOTHING),
        flag("`T` alone", f"T{TTL_S}"),
        flag("`P`: ignored", "Ppath"),
        flag("`L`: ignored", "Lpath/"),
        flag("unknown flag", "!"),
    ]
    return Family.of("Meta delete", rows)


def arithmetic() -> Family:
    def flag(what: str, flags: str, before: Holdings = NUMBER) -> Row:
        return Row(f"ma {what}", line(f"ma key {flags}"), before)

    rows = [
        Row("ma, present", line("ma key"), NUMBER),
        Row("ma, absent", line("ma key")),
        Row("ma, value not a number", line("ma key"), VALUE),
        Row("ma `b`: key in base64", line(f"ma {BASE64} b v"), BINARY_NUMBER),
        Row("ma `b`: create a binary key", line(f"ma {BASE64} b N{TTL_S} v"), why="forged"),
        flag("`C`: compare cas, equal", "C<cas>"),
        flag("`C`: compare cas, not equal", "C<lower>"),
        flag("`N`: create, absent", f"N{TTL_S}", NOTHING),
        flag("`N`: create, present", f"N{TTL_S}"),
        flag("`J`: initial value", f"N{TTL_S} J5 v", NOTHING),
        flag("`J` without `N`", "J5", NOTHING),
        flag("`D`: delta", "D5 v"),
        flag("`D`: not a number", "Dabc"),
        flag("`N` and `T`: create, absent", f"N{TTL_S} T{2 * TTL_S} t", NOTHING),
        flag("`T`: TTL", f"T{TTL_S}"),
        flag("`MI`: incr", "MI v"),
        flag("`M+`: incr", "M+ v"),
        flag("`MD`: decr", "MD v"),
        flag("`M-`: decr", "M- D11 v"),
        flag("`M`: unknown mode", "M!"),
        flag("`q`: quiet, done", "q"),
        flag("`q`: quiet, absent", "q", NOTHING),
        flag("`t`: TTL", f"t T{TTL_S}"),
        flag("`c`: cas", "c"),
        flag("`v`: value", "v"),
        flag("`k`: key", "k"),
        flag("`O`: opaque", "Otoken"),
        flag("`P`: ignored", "Ppath"),
        flag("`L`: ignored", "Lpath/"),
        flag("unknown flag", "!"),
    ]
    return Family.of("Meta arithmetic", rows)
