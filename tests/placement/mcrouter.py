"""Where mcrouter puts keys, worked out anew in Python from what its functions are said to do: an oracle for Weir's own.

`test_mcrouter.py` holds it against the vectors that mcrouter publishes before anything is compared with it.
"""

from __future__ import annotations

from collections.abc import Sequence

MASK = (1 << 64) - 1
FURC_SEED = 4193360111
TRIES = 32
STRIDE = 23


def murmur64a(data: bytes, seed: int) -> int:
    multiplier = 0xC6A4A7935BD1E995
    digest = seed ^ (len(data) * multiplier & MASK)
    whole = len(data) // 8 * 8
    for start in range(0, whole, 8):
        word = int.from_bytes(data[start : start + 8], "little") * multiplier & MASK
        word = (word ^ word >> 47) * multiplier & MASK
        digest = (digest ^ word) * multiplier & MASK
    if data[whole:]:
        digest = (digest ^ int.from_bytes(data[whole:], "little")) * multiplier & MASK
    digest = (digest ^ digest >> 47) * multiplier & MASK
    return digest ^ digest >> 47


class _Coins:
    """The bits that a key throws: those of its hash, of the hash of that hash, and so on."""

    def __init__(self, key: bytes) -> None:
        self._words = [murmur64a(key, FURC_SEED)]

    def __getitem__(self, place: int) -> int:
        while len(self._words) <= place // 64:
            self._words.append(murmur64a(self._words[-1].to_bytes(8, "little"), FURC_SEED))
        return self._words[place // 64] >> place % 64 & 1


def ch3(key: bytes, count: int) -> int:
    """The place of `key` among `count` servers."""
    if count <= 1:
        return 0
    coins = _Coins(key)
    height = (count - 1).bit_length()
    place = height
    for _ in range(TRIES):
        while coins[place] == 0:
            height -= 1
            if height == 0:
                return 0
            place = height
        # The highest bit is set; the others are thrown.
        bits = [coins[place + STRIDE * step] for step in range(1, height)]
        place += STRIDE * height
        found = int("1" + "".join(map(str, bits)), 2)
        if found < count:
            return found
    return 0


def spooky32(data: bytes, seed: int) -> int:
    """SpookyHash V2 of fewer than 192 bytes."""
    assert len(data) < 192

    def rotated(value: int, by: int) -> int:
        return (value << by | value >> 64 - by) & MASK

    def word(start: int) -> int:
        return int.from_bytes(data[start : min(start + 8, len(data))], "little")

    a, b, c, d = seed, seed, 0xDEADBEEFDEADBEEF, 0xDEADBEEFDEADBEEF
    start = 0
    while len(data) - start >= 16:
        c, d = (c + word(start)) & MASK, (d + word(start + 8)) & MASK
        start += 16
        # Each row: the one that turns, what is added to it, the one that it is mixed into.
        h = [a, b, c, d]
        for turns, by in enumerate((50, 52, 30, 41, 54, 48, 38, 37, 62, 34, 5, 36)):
            one, other, mixed = (turns + 2) % 4, (turns + 3) % 4, turns % 4
            h[one] = (rotated(h[one], by) + h[other]) & MASK
            h[mixed] ^= h[one]
        a, b, c, d = h
        if len(data) - start >= 16:
            a, b = (a + word(start)) & MASK, (b + word(start + 8)) & MASK
            start += 16
    d = (d + (len(data) << 56)) & MASK
    if start == len(data):
        c, d = (c + 0xDEADBEEFDEADBEEF) & MASK, (d + 0xDEADBEEFDEADBEEF) & MASK
    else:
        c = (c + word(start)) & MASK
        d = (d + word(start + 8)) & MASK if len(data) > start + 8 else d
    h = [a, b, c, d]
    for turns, by in enumerate((15, 52, 26, 51, 28, 9, 47, 54, 32, 25, 63)):
        one, other = (turns + 3) % 4, (turns + 2) % 4
        h[one] ^= h[other]
        h[other] = rotated(h[other], by)
        h[one] = (h[one] + h[other]) & MASK
    return h[0] & 0xFFFFFFFF


def weighted_ch3(key: bytes, weights: Sequence[float]) -> int:
    """The place of `key` among servers of these weights, each from 0 to 1."""
    found, asked = 0, key
    for number in range(TRIES):
        found = ch3(asked, len(weights))
        if spooky32(asked, 0xFACE2014) < int(weights[found] * 0xFFFFFFFF):
            break
        asked = key + str(number)[::-1].encode()
    return found
