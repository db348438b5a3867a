"""Whether a broker's own read positions lie beyond the ends of what they read: delayed messages, transactions and POP's
revive log would then wait without a word. A table of positions that was carried to another store does that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.health.facts import BrokerFacts, ClusterFacts
from rmqadmin.core.health.finding import Check, Finding, Grade, names_told
from rmqproto.errors import RocketMQError
from rmqproto.names import (
    REVIVE_GROUP,
    SCHEDULE_TOPIC,
    TRANSACTION_GROUP,
    TRANSACTION_HALF_TOPIC,
    TRANSACTION_OP_TOPIC,
    revive_topic,
)

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

_REVIVE_QUEUES, _REVIVE_QUEUES_DEFAULT, _REVIVE_QUEUES_MAX = "reviveQueueNum", 8, 64
_TIMER_BEHIND = "timerOffsetBehind"


def position_findings(facts: ClusterFacts) -> Iterator[Finding]:
    """One finding for each kind of position that a master has beyond an end."""
    fix = "Were its config files carried here from another store? Start rmqserver on the store: it sets such positions "
    fix += "back; `rmqadmin store verify DIR` shows them while no broker runs."
    for master in facts.masters:
        for effect, ahead in master.ahead.items():
            what = f"{effect}: it reads on from beyond the end of {names_told(ahead)}"
            yield Finding(Grade.ERROR, Check.POSITIONS, master.subject, what, fix)


def with_positions(admin: AdminClient, facts: ClusterFacts) -> ClusterFacts:
    """The facts with the read positions of masters."""

    def asked(broker: BrokerFacts) -> BrokerFacts:
        is_asked = broker.is_master and broker.error is None
        return msgspec.structs.replace(broker, ahead=read_ahead(admin, broker)) if is_asked else broker

    return msgspec.structs.replace(facts, brokers=targets.ask_each(asked, facts.brokers))


def read_ahead(admin: AdminClient, master: BrokerFacts) -> dict[str, list[str]]:
    """The positions of a master that lie beyond an end, by what that does. What a broker does not tell is left out."""
    reads = {
        "delayed messages come late or never": _delay_levels(admin, master),
        "half messages are not asked about": _transactions(admin, master),
        "messages that POP consumers did not acknowledge do not come back": _revive_log(admin, master),
        "timers are lost": _timers(master),
    }
    return {effect: ahead for effect, found in reads.items() if (ahead := list(found))}


def _delay_levels(admin: AdminClient, master: BrokerFacts) -> Iterator[str]:
    addr = master.replica.broker_addr
    try:
        for level, offset in sorted(admin.delay_offsets(addr).offset_table.items()):
            if offset > 0 and offset > (end := admin.max_offset(addr, SCHEDULE_TOPIC, level - 1)):
                yield f"delay level {level} ({offset:,} of {end:,})"
    except RocketMQError:
        return


def _transactions(admin: AdminClient, master: BrokerFacts) -> Iterator[str]:
    for topic in (TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC):
        yield from _committed(admin, master, TRANSACTION_GROUP, topic, 1)


def _revive_log(admin: AdminClient, master: BrokerFacts) -> Iterator[str]:
    text = master.config.get(_REVIVE_QUEUES, "")
    count = min(int(text), _REVIVE_QUEUES_MAX) if text.isdecimal() else _REVIVE_QUEUES_DEFAULT
    yield from _committed(admin, master, REVIVE_GROUP, revive_topic(master.replica.cluster), count)


def _committed(admin: AdminClient, master: BrokerFacts, group: str, topic: str, queue_count: int) -> Iterator[str]:
    """Queues of a topic that end before the group's committed offset. The offset is read first: ends only grow."""
    addr = master.replica.broker_addr
    try:
        for queue_id in range(queue_count):
            offset = admin.consumer_offset(addr, group, topic, queue_id)
            if offset and offset > (end := admin.max_offset(addr, topic, queue_id)):
                yield f"{topic}/{queue_id} ({offset:,} of {end:,})"
    except RocketMQError:
        return


def _timers(master: BrokerFacts) -> Iterator[str]:
    behind = master.replica.count(_TIMER_BEHIND)
    if behind is not None and behind < 0:
        yield f"the timer topic (by {-behind:,})"
