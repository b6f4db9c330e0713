"""Why Weir answers or keeps otherwise than memcached. A difference without a reason fails the test of the table."""

from __future__ import annotations

# The page has lines of 120 columns: longer reasons break them, and go on below the first word.
_DECISION_3 = "[decision 3](../decisions/0003-answers-of-memcached.md)"
_DECISION_5 = "[decision 5](../decisions/0005-replication.md)"

REASONS = {
    "statistics": f"The proxy's own statistics under memcached's names ([fields](stats.md));\n   {_DECISION_3}.",
    "no items": f"The proxy keeps no items: it says what a memcached says that holds none;\n   {_DECISION_3}.",
    "one server's": f"The keys of one server; to say that there are none would mislead;\n   {_DECISION_3}.",
    "whole server": (
        "It acts on one whole server; `--allow-server-commands` allows those that are answered in one line;\n   "
        f"{_DECISION_3}."
    ),
    "unknown": "It acts on one whole server, and Weir does not know it.",
    "flush": f"It would empty everybody's cache; `--allow-flush` allows it; {_DECISION_3}.",
    "forged": (
        "memcached would later repeat the key's bytes as they are, and a line ending among them would begin a\n   "
        f"forged reply on a connection that many clients share; {_DECISION_3}."
    ),
    "echo": (
        "Weir repeats a key in base64 as it was asked for, memcached as it was stored. Servers are not asked to\n   "
        f"repeat such keys; {_DECISION_3}."
    ),
    "followers": (
        "The decider did it, and the other replicas were sent a delete of the key: what they hold they could have\n   "
        f"decided otherwise, and a missing copy is safe where another value is not;\n   {_DECISION_5}."
    ),
    "tokens": (
        "A token is answered `EXISTS` (`EX`) before anybody is asked for the item, unless it names the server that\n   "
        f"decides; {_DECISION_5}."
    ),
    "other protocols": (
        "A client whose first bytes belong to another protocol (HTTP, TLS, memcached's binary one) gets an error\n   "
        f"in that protocol, and its connection ends; {_DECISION_3}."
    ),
    "reads": f"A retrieval that changes an item goes to the decider alone; {_DECISION_5}.",
}
