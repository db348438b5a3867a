"""Facts about servers that were not read in the middle of a handover: brokers, name servers and controllers are asked
one after the other, and would seem to contradict each other."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from rmqadmin.core.health.facts import ClusterFacts
from rmqadmin.core.servers.ha_sets import HaFacts, HaSet

AGAIN_AFTER_S = 2.0
"""A handover or an election takes about a second until all brokers follow the new master."""


class ServerFacts(NamedTuple):
    cluster: ClusterFacts
    ha: HaFacts


def read_settled(
    read: Callable[[], ServerFacts], say: Callable[[str], None], sleep: Callable[[float], None] = time.sleep
) -> ServerFacts:
    """What ``read`` returns. If a set seems to change its master then, it is asked once more, a moment later."""
    found = read()
    moving = [one.broker_name for one in found.ha.sets if _seems_to_move(one)]
    if not moving:
        return found
    say(f"{', '.join(moving)} may be changing the master: looking again")
    sleep(AGAIN_AFTER_S)
    return read()


def _seems_to_move(one: HaSet) -> bool:
    """Whether brokers or name servers do not say what the controller says, or a broker lives and is not in sync."""
    if one.known is None or one.known.master_address is None:
        return False
    claims = [member.broker_addr for member in one.claiming]
    return (
        one.registered_master != one.known.master_address
        or claims != [one.known.master_address]
        or any(member.is_alive and member.in_sync is False for member in one.members)
    )
