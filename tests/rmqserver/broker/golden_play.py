"""Apache's own exchanges played against our broker: the request's bytes go out as they were recorded, and our answer
must say what Apache's said.

What no two runs share - times, ports, offsets in the log - is named by each play as loose: it must be there, with a
value of the same type. Where we answer otherwise on purpose, ``RECORDED`` and ``NOT_RECORDED`` say so, with the reason;
the compatibility page of the manual is made from them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, NamedTuple

from tests.support.golden import exchange, said
from tests.support.wire import Wire

_PEER = re.compile(r"127\.0\.0\.1:\d{4,5}")

SETS = ("groupList", "topicList", "tagsSet", "codeSet")
"""Lists whose order means nothing: Apache writes them in the order of a hash set."""


class Difference(NamedTuple):
    """What we answer otherwise on purpose: what it is, and why."""

    ours: str
    reason: str


AS_BEFORE = Difference("as before", "as before")
TIMERS = (*range(13, 18), *range(39, 44))

RECORDED = {
    "309-CONSUME_MESSAGE_DIRECTLY/03": Difference(
        "1, with the text that the id is no offset message id",
        "Apache's remark names a class of the Java library and a line of its source",
    ),
    "309-CONSUME_MESSAGE_DIRECTLY/06": Difference("as 03", "as 03"),
    "223-INVOKE_BROKER_TO_GET_CONSUMER_STATUS/02": Difference(
        "1 `No Any Consumer online in the consumer group: [NormalGroup]`, the text that Apache has for it",
        "Apache fails with a NullPointerException before it gets to that text",
    ),
    "223-INVOKE_BROKER_TO_GET_CONSUMER_STATUS/04": Difference("as 02", "as 02"),
    "10-SEND_MESSAGE/10": Difference("1, with the name of the missing field", "as 309 03"),
    "10-SEND_MESSAGE/25": Difference("as 10", "as 10"),
    "310-SEND_MESSAGE_V2/26": Difference("as 10 10", "as 10 10"),
    "310-SEND_MESSAGE_V2/52": Difference("as 10 10", "as 10 10"),
    "320-SEND_BATCH_MESSAGE/03": Difference("1, with the byte at which the batch is none", "as 309 03"),
    "320-SEND_BATCH_MESSAGE/06": Difference("as 03", "as 03"),
    "315-VIEW_BROKER_STATS_DATA/08": Difference(
        "1 `… not exist`",
        "our transaction check does not read its queue as a consumer group, so nothing is counted for it",
    ),
    "10-SEND_MESSAGE/12": Difference(
        "16 `the broker[…] sending transaction message is forbidden`, as Apache's broker with rejectTransactionMessage",
        "transactions are not served yet, and a half message must not be delivered",
    ),
    **dict.fromkeys(("10-SEND_MESSAGE/27", "310-SEND_MESSAGE_V2/23", "310-SEND_MESSAGE_V2/49"), AS_BEFORE),
    "10-SEND_MESSAGE/14": Difference(
        "1 `accurate timer message is not enabled, timerWheelEnable is false`, as Apache's broker without it",
        "timers of any delay are not served yet, and such a message must not be delivered at once",
    ),
    **dict.fromkeys(("10-SEND_MESSAGE/29", *(f"310-SEND_MESSAGE_V2/{n}" for n in TIMERS)), AS_BEFORE),
    "11-PULL_MESSAGE/28": Difference(
        "1 `The broker does not support consumer to filter message by SQL92`, as Apache's without enablePropertyFilter",
        "filters by property are not served yet",
    ),
    **dict.fromkeys(("11-PULL_MESSAGE/60", *(f"46-CHECK_CLIENT_CONFIG/0{n}" for n in range(1, 5))), AS_BEFORE),
}
"""Differences that a recorded exchange shows, by exchange."""

NOT_RECORDED = {
    "17, 18: queue counts": Difference(
        "29 for less than 0 or more than 16,384 queues",
        "every look at a topic asks for every queue; Apache takes any number",
    ),
    "17, 18: queue.type=BatchCQ, cleanup.policy=COMPACTION": Difference(
        "1 `value … is not supported by this broker`",
        "we write neither kind of queue, and a topic must not say that it is what it is not",
    ),
    "18: a topic in the list that would not change": Difference(
        "passed over; the others are created",
        "Apache says success and creates none of the others",
    ),
    "17, 18, 200, 225: a list with a bad entry": Difference(
        "nothing of it is taken", "Apache takes what stands before it in 225, and nothing in 18"
    ),
    "303: delayTime": Difference(
        "0 where no message waits; for a group without offsets the age of the first message",
        "Apache shows the time since 1970",
    ),
    "308: filterGroups": Difference(
        "left out of the comparison", "Apache removes the stored offsets of these groups for good"
    ),
    "314: no topic": Difference("all topics of the group are cloned", "Apache walks through them and copies none"),
    "307, 309: no answer from the client": Difference(
        "207 and 1 with Apache's text up to the colon", "what follows there names a Java exception"
    ),
    "315: names": Difference(
        "TOPIC_PUT, GROUP_GET, BROKER_PUT, BROKER_GET, and what send-back, dead letters and acknowledgements count",
        "counts by queue and latencies by group cost every message something, and mqadmin asks for neither",
    ),
    "321: filterData": Difference("`null` for SQL92 too", "compiled filters are not kept beyond the pull"),
    "10, 310, 320: code 14": Difference(
        "the reason stands behind Apache's text", "Apache's broker says it in its log only"
    ),
    "320: a message or the whole batch is too large": Difference(
        "13, and nothing of it is stored", "Apache fails with an exception, code 1, which clients try again"
    ),
    "36: with SYNC_FLUSH": Difference(
        "answered when the retry is flushed", "the consumer commits past the message, which a power cut could then lose"
    ),
    "11: a held pull whose time is up": Difference("answered within a second", "Apache looks every five seconds"),
    "34: heartbeats without subscriptions of an unknown group": Difference(
        "IS_SUB_CHANGE true", "Apache says false, and the client never sends them again to a broker started anew"
    ),
    "15: numbers past Java's long": Difference("1, with the name of the field", "as 309 03"),
    "10, 310, 320: a zero byte in the properties": Difference(
        "13, and nothing is stored",
        "no checksum covers properties: zeros in them tell a record that a power cut tore",
    ),
    "25, 318: values that would stop the server for others": Difference(
        "29 `KEY=VALUE: …`, what is needed; nothing of the request is taken",
        "Apache takes maxMessageSize=-5 and refuses every message from then on; what it clamps, we clamp",
    ),
    "28: unwriteableReason": Difference(
        "a key more, while the broker refuses messages", "Apache's broker says the reason in its log only"
    ),
    "12: answers past 12 MiB": Difference("cut after a whole message", "a longer frame closes the connection"),
}
"""Differences that no recorded exchange shows."""


def play(wire: Wire, name: str, *loose: str) -> dict[str, Any]:
    """Plays one exchange; returns what we said. ``loose`` names members and ext fields."""
    golden = exchange(name)
    ours = said(wire.exchange(golden.request))
    compare(name, ours, said(golden.answer), *loose)
    return dict(ours)


def compare(name: str, ours: dict[str, Any], theirs: dict[str, Any], *loose: str) -> None:
    """The ports of clients, which remarks name, are left out."""
    ours, theirs = (said | {"remark": _PEER.sub("PEER", said["remark"])} for said in (ours, theirs))
    if name in RECORDED:
        assert loosened(ours, loose) != loosened(theirs, loose), f"{name}: no difference any more"
    else:
        assert loosened(ours, loose) == loosened(theirs, loose), name


def loosened(value: Any, loose: Collection[str]) -> Any:
    """``value`` in an order of our own, with the type alone of what is loose."""
    if isinstance(value, dict):
        return {
            key: type_of(item) if key in loose else _member(key, item, loose) for key, item in sorted(value.items())
        }
    if isinstance(value, list) and value and isinstance(value[0], tuple):  # a map with object keys
        return sorted(((loosened(key, loose), loosened(item, loose)) for key, item in value), key=repr)
    if isinstance(value, list):
        return [loosened(item, loose) for item in value]
    return value


def _member(key: str, item: Any, loose: Collection[str]) -> Any:
    return sorted(item) if key in SETS else loosened(item, loose)


def type_of(value: Any) -> str:
    return type(value).__name__
