"""Names: which one a user may have meant, and which are not of users."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from rmqproto.names import RETRY_PREFIX, is_system_topic, reply_topic

if TYPE_CHECKING:
    from rmqproto.bodies.routes import ClusterInfo


_UNKNOWN_NAME = re.compile(r"Object contains unknown field `(.*?)`(?: - at `\$?\.?(.*)`)?", re.DOTALL)


LIKENESS = 0.6
"""What ``difflib`` takes for a close match."""


def near_name(name: str, known: Iterable[str], likeness: float = LIKENESS) -> str | None:
    """The known name most similar to ``name``, ignoring case, as it is written; None if none is similar. ``likeness``:
    how similar it must be, from 0 to 1."""
    from difflib import get_close_matches  # only for mistyped names

    spelled = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), spelled, n=1, cutoff=likeness)
    return spelled[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str], likeness: float = LIKENESS) -> str | None:
    """A hint that suggests ``near_name``."""
    near = near_name(name, known, likeness)
    return None if near is None else f"Did you mean {near}?"


def unknown_name(problem: str, known: Iterable[str], usual: Iterable[str] = ()) -> tuple[str, str] | None:
    """For the words in which msgspec refuses an unknown name: better words, and a hint with the nearest known name,
    else with the usual ones. None for another problem."""
    found = _UNKNOWN_NAME.fullmatch(problem)
    if found is None:
        return None
    name, place = found.groups()
    where = f" in {place}" if place and place != "..." else ""
    names = list(known)
    hint = did_you_mean(name, names) or f"Known are: {', '.join(usual or names)}."
    return f"there is no field {name!r}{where}", hint


def is_made_by_brokers(topic: str, servers: Collection[str] = ()) -> bool:
    """Whether brokers made the topic: system topics, retry topics, and ``servers``, the result of
    ``topics_of_servers``. Dead-letter topics do not count, because people look for them."""
    return is_system_topic(topic) or topic.startswith(RETRY_PREFIX) or topic in servers


def topics_of_servers(info: ClusterInfo) -> set[str]:
    """The topics that brokers make for themselves: one of their own name, one of their cluster's, and one for
    replies."""
    return topics_named_after(info.broker_addr_table, info.cluster_addr_table)


def topics_named_after(broker_names: Iterable[str], clusters: Iterable[str]) -> set[str]:
    """``topics_of_servers``, given the names."""
    clusters = list(clusters)
    return {*broker_names, *clusters, *map(reply_topic, clusters)}
