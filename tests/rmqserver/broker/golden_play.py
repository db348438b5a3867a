"""Apache's own exchanges played against our broker: the request's bytes go out as they were recorded, and our answer
must say what Apache's said.

Each play names what differs from run to run (times, ports, offsets in the log) as loose: it must be there, with a value
of the same type. ``tests/docs/differences.py`` lists the answers that differ on purpose, with the reasons.
"""

import re
from collections.abc import Collection
from typing import Any

from tests.docs.differences import RECORDED
from tests.support.golden import exchange, said
from tests.support.wire import Wire

_PEER = re.compile(r"127\.0\.0\.1:\d{4,5}")

SETS = ("groupList", "topicList", "tagsSet", "codeSet")
"""Lists whose order means nothing: Apache writes them in the order of a hash set."""


def play(wire: Wire, name: str, *loose: str) -> dict[str, Any]:
    """Plays one exchange and returns our answer. ``loose`` names members and ext fields."""
    golden = exchange(name)
    wire.send(golden.request)
    while not (answer := wire.receive()).is_answer:  # the server may ask a producer in between
        pass
    ours = said(answer)
    compare(name, ours, said(golden.answer), *loose)
    return dict(ours)


def compare(name: str, ours: dict[str, Any], theirs: dict[str, Any], *loose: str) -> None:
    """Compares everything but client ports, which remarks contain."""
    ours, theirs = (said | {"remark": _PEER.sub("PEER", said["remark"])} for said in (ours, theirs))
    if name in RECORDED:
        assert loosened(ours, loose) != loosened(theirs, loose), f"{name}: no difference any more"
    else:
        assert loosened(ours, loose) == loosened(theirs, loose), name


def loosened(value: Any, loose: Collection[str]) -> Any:
    """``value`` in a fixed order, with only the types of loose members."""
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
