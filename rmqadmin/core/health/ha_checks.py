"""What is wrong with broker sets and their controllers: which replicas could take over, which are behind, which wrongly
act as master."""

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rmqadmin.core import units
from rmqadmin.core.health.facts import ClusterFacts
from rmqadmin.core.health.finding import Check, Finding, Grade, Subject, SubjectKind
from rmqadmin.core.servers.ha_sets import AskedControllers, HaFacts, HaMember, HaSet, KnownBroker
from rmqproto.wording import counted, names_told

BEHIND_MS = 15_000
"""In a set with a controller, a slave this far behind is removed from the in-sync set
(``haMaxTimeSlaveNotCatchup``)."""

BEHIND_BYTES = 256 << 20
"""Without a controller, a slave this far behind does not count as in sync (``haMaxGapNotInSync``)."""

SILENT_MS = 20_000
"""A master sends something every five seconds, and both sides give up after twenty (``haHousekeepingInterval``)."""


def registered_brokers(facts: ClusterFacts) -> list[KnownBroker]:
    return [
        KnownBroker(
            cluster=broker.replica.cluster, broker_name=broker.replica.broker_name,
            broker_id=broker.replica.broker_id, broker_addr=broker.replica.broker_addr, config=broker.config,
        )
        for broker in facts.brokers
    ]  # fmt: skip


def _subject(name: str) -> Subject:
    return Subject(SubjectKind.BROKER_SET, name)


def ha_findings(facts: HaFacts, now_ms: int) -> Iterator[Finding]:
    for group in facts.controllers:
        yield from controllers_findings(group)
    for name in sorted({name for group in facts.controllers for name in group.broker_names}):
        groups = [group for group in facts.controllers if name in group.broker_names]
        if len({frozenset(one.addr for one in group.controllers) for group in groups}) > 1:  # in whatever order
            what = f"its brokers name different controllers: {' and '.join(group.addrs for group in groups)}"
            fix = "Give all of them one controllerAddr in their settings, and restart those that had another."
            yield Finding(Grade.ERROR, Check.CONTROLLERS, _subject(name), what, fix)
    for one in facts.sets:
        yield from set_findings(one, now_ms)
        yield from behind_findings(one, now_ms)


# --- controllers -----------------------------------------------------------------------------------------------------


def controllers_findings(group: AskedControllers) -> Iterator[Finding]:
    """``subject`` is the controller with the problem, or all of them."""
    silent = [one for one in group.controllers if one.meta is None]
    if not group.answering:
        reasons = "; ".join(dict.fromkeys(one.error or one.addr for one in silent))
        what = f"no controller answers ({reasons}): sets keep their roles, and nobody takes over from a lost master"
        fix = "Start them again on their directories: rmqserver controller --data DIRECTORY."
        yield _controller_finding(group.addrs, Grade.ERROR, what, fix)
        return
    for one in silent:
        fix = "Start it again, or take it out of controllerAddr in the settings of brokers."
        yield _controller_finding(one.addr, Grade.WARNING, f"does not answer: {one.error}", fix)
    if (problem := _leaderless(group)) is not None:
        yield problem
    elif not silent:
        what = f"{group.leader_addrs[0]} leads, {counted(len(group.controllers), 'controller')} answer"
        yield _controller_finding(group.addrs, Grade.OK, what)


def _leaderless(group: AskedControllers) -> Finding | None:
    """What keeps the controllers that answer from being led by one of them that reports its sets."""
    if disagreement := _disagreement(group):
        what = f"the controllers disagree: {disagreement}"
        fix = "Normal for seconds after an election. If it stays: they are different groups, or one is cut off from "
        fix += "the others; give all of them the same peers, and brokers the addresses of one group alone."
        return _controller_finding(group.addrs, Grade.ERROR, what, fix)
    if not group.leader_addrs:
        what = "no controller leads: no master is elected, and no set changes"
        fix = "More than half of them, or of their etcd, must be up; their logs say more."
        return _controller_finding(group.addrs, Grade.ERROR, what, fix)
    if group.known is None:
        what = f"{group.leader_addrs[0]} leads, but does not report its sets: {group.error}"
        fix = "Open the way to it from here; if it refuses, give the keys of a user that may: --access-key, "
        fix += "--secret-key."
        return _controller_finding(group.addrs, Grade.WARNING, what, fix)
    return None


def _controller_finding(subject: str, grade: Grade, what: str, fix: str | None = None) -> Finding:
    return Finding(grade, Check.CONTROLLERS, _subject(subject), what, fix)


def _disagreement(group: AskedControllers) -> str | None:
    metas = [(one.addr, one.meta) for one in group.controllers if one.meta is not None]
    if len(group.leader_addrs) > 1:
        told = [f"{addr} says that {meta.controller_leader_address} leads" for addr, meta in metas]
        return ", ".join(
            text for text, (_, meta) in zip(told, metas, strict=True) if meta.controller_leader_address
        )  # fmt: skip
    leading = [addr for addr, meta in metas if meta.is_leader]
    if len(leading) > 1:
        return f"each of {' and '.join(leading)} says that it leads"
    if len({meta.group for _, meta in metas}) > 1:
        return ", ".join(f"{addr} is of the group {meta.group}" for addr, meta in metas)
    return None


# --- sets ------------------------------------------------------------------------------------------------------------


def set_findings(one: HaSet, now_ms: int) -> Iterator[Finding]:
    """All findings for a set except how far its slaves are behind."""
    yield from _masters(one)
    yield from _in_sync(one)
    for slave in one.slaves:
        yield from _following(one, slave, now_ms)


def _masters(one: HaSet) -> Iterator[Finding]:
    claiming, master, known = one.claiming, one.master, one.known
    if len(claiming) > 1:
        yield _several_masters(one, claiming)
    elif known is not None and master is not None and claiming and claiming[0] is not master:
        what = f"the controller says that {master.broker_addr} is its master, and {claiming[0].broker_addr} says that "
        what += "it is"
        fix = "Normal for a second after an election. If it stays: start the latter again."
        yield _finding(one, Grade.WARNING, Check.MASTERS, what, fix)
    registered = one.registered_master
    if known is not None and registered is not None and known.master_address not in (None, registered):
        what = f"name servers send clients to {registered}, and the controller's master is {known.master_address}"
        fix = "Normal for a second after an election. If it stays: is the name server reached from the new master?"
        yield _finding(one, Grade.WARNING, Check.MASTERS, what, fix)


def _several_masters(one: HaSet, claiming: Sequence[HaMember]) -> Finding:
    epochs = ("" if member.last_epoch is None else f" (epoch {member.last_epoch})" for member in claiming)
    told = " and ".join(member.broker_addr + epoch for member, epoch in zip(claiming, epochs, strict=True))
    what = f"{counted(len(claiming), 'broker')} claim to be its master: {told}. "
    if len({member.last_epoch for member in claiming}) == 1:
        what += "Messages that one of them takes are missing at the others"
    else:
        what += "Messages that the one of the older epoch takes are cut off when it follows the other"
    stop = "Stop all but one of them"
    if one.master is not None:
        others = [member.broker_addr for member in claiming if member is not one.master]
        stop = f"Stop {' and '.join(others)}; {one.master.broker_addr} is the one that counts"
    if one.has_controllers:
        fix = f"{stop}, and start it again: it then asks the controllers for its role."
    else:
        fix = f"{stop}. One that is to follow again must be a slave (brokerRole=SLAVE, another "
        fix += "brokerId), without messages that its master lacks."
    return _finding(one, Grade.ERROR, Check.MASTERS, what, fix)


def _in_sync(one: HaSet) -> Iterator[Finding]:
    count = one.in_sync_count
    if count is None:
        return
    if one.known is not None and one.known.master_broker_id is None:
        yield _without_master(one)
    elif count < one.in_sync_needed:
        yield _short_of_copies(one, count)
    elif one.known is not None and count == 1 and len(one.members) > 1:
        what = f"one of {len(one.members)} is in sync: if {_master_addr(one)} is lost, nobody takes over"
        yield _finding(one, Grade.WARNING, Check.IN_SYNC, what, _regain(one))
    elif missing := _missing(one):
        yield _without_some(one, count, missing)
    elif len(one.members) > 1:
        epoch = "" if one.known is None else f", epoch {one.known.master_epoch}"
        what = f"all {len(one.members)} are in sync, the master is {_master_addr(one)}{epoch}"
        yield _finding(one, Grade.OK, Check.IN_SYNC, what)


def _without_master(one: HaSet) -> Finding:
    in_sync = [member for member in one.members if member.in_sync]
    what = f"has no master: none that was in sync is alive ({_told(one, in_sync)})"
    fix = "Start one of them. enableElectUncleanMaster=true at the controller elects another one, and loses what "
    fix += "only they have."
    return _finding(one, Grade.ERROR, Check.IN_SYNC, what, fix)


def _short_of_copies(one: HaSet, count: int) -> Finding:
    if one.known is not None:
        what = f"takes no messages: {count} in sync, and minInSyncReplicas={one.in_sync_needed}"
        fix = f"{_regain(one)} To go on with fewer: rmqadmin updateBrokerConfig -b {_master_addr(one)} "
        fix += f"-k minInSyncReplicas -v {count}"
    else:
        what = f"has {count} of the {one.in_sync_needed} copies that inSyncReplicas wants: producers get "
        what += "FLUSH_SLAVE_TIMEOUT"
        fix = f"Start its slave. rmqadmin haStatus -b {_master_addr(one)} shows which are connected."
    return _finding(one, Grade.ERROR, Check.IN_SYNC, what, fix)


def _without_some(one: HaSet, count: int, missing: Sequence[HaMember]) -> Finding:
    what = f"{count} of {len(one.members)} are in sync, without {_told(one, missing)}"
    fix = _regain(one)
    if dead := [member for member in missing if not member.is_alive]:
        ids = ";".join(str(member.broker_id) for member in dead)
        fix += " If gone for good: rmqadmin cleanBrokerMetadata "
        fix += f"-a {shlex.quote(one.controller_addrs)} -bn {one.broker_name} -c {one.cluster} -b '{ids}'"
    return _finding(one, Grade.WARNING, Check.IN_SYNC, what, fix)


def _missing(one: HaSet) -> list[HaMember]:
    """The slaves that are not in sync. Empty if it is only known how many slaves the master has, not which."""
    return [member for member in one.members if member.in_sync is False]


def _regain(one: HaSet) -> str:
    """What brings the missing slaves back into sync: a dead one has to be started, a living one catches up."""
    missing = _missing(one)
    dead, alive = ([each for each in missing if bool(each.is_alive) is lives] for lives in (False, True))
    lines = [f"Start {_told(one, dead)}."] if dead else []
    if alive:
        names = names_told([one.name_of(each) for each in alive])
        watch = f"rmqadmin getSyncStateSet -a {shlex.quote(one.controller_addrs)} -b {one.broker_name} --watch"
        lines.append(f"{watch} shows when {names} {'has' if len(alive) == 1 else 'have'} caught up.")
    return " ".join(lines)


def _told(one: HaSet, members: Sequence[HaMember]) -> str:
    words = {True: "lives", False: "is dead", None: "is not known to the controller"}
    return names_told([f"{one.name_of(each)} at {each.broker_addr}, which {words[each.is_alive]}" for each in members])


def _master_addr(one: HaSet) -> str:
    master = one.master
    return "nobody" if master is None else master.broker_addr


# --- slaves ----------------------------------------------------------------------------------------------------------


def _following(one: HaSet, slave: HaMember, now_ms: int) -> Iterator[Finding]:
    check, name, behind_bytes = Check.REPLICA_LAG, one.name_of(slave), one.behind_bytes(slave)
    if slave.status is None or behind_bytes is None:
        return
    client = slave.status.ha_client_runtime_info
    if behind_bytes < 0:
        what = (
            f"its log is {units.size(-behind_bytes)} longer than that of its master {_master_addr(one)}: it has what "
        )
        what += "the master has not, and follows nobody"
        fix = "Remove its store and start it again; or make it the master, to keep what only it has."
        if one.has_controllers:
            fix = "It discards that when it follows. To keep it, stop the broker and copy its store before."
        yield Finding(Grade.ERROR, check, _subject(name), what, fix)
    elif not client.last_read_timestamp:
        what = f"has never reached its master {_master_addr(one)}"
        fix = "Is the master's haListenPort open to it, at the address that brokerIP2 names? Its log says what fails."
        yield Finding(Grade.ERROR, check, _subject(name), what, fix)
    elif (silent_ms := now_ms - client.last_read_timestamp) > SILENT_MS:
        what = f"has heard nothing of its master {_master_addr(one)} for {units.duration(silent_ms)}"
        fix = "Is the master's haListenPort open to it? Its log says what fails."
        yield Finding(Grade.ERROR, check, _subject(name), what, fix)


def behind_findings(one: HaSet, now_ms: int) -> Iterator[Finding]:
    limit_bytes = one.number("haMaxGapNotInSync", BEHIND_BYTES)
    for slave in one.slaves:
        behind_bytes, behind_ms = one.behind_bytes(slave), one.behind_ms(slave, now_ms)
        if behind_bytes is None or behind_bytes < 0:
            continue
        is_late = behind_bytes > limit_bytes or (behind_ms or 0) > BEHIND_MS
        fix = f"rmqadmin haStatus -b {_master_addr(one)} --watch shows whether it catches up; its network and its disk "
        fix += "decide how fast."
        subject, what = _subject(one.name_of(slave)), behind_text(behind_bytes, behind_ms)
        if is_late:
            yield Finding(Grade.WARNING, Check.REPLICA_LAG, subject, what, fix)
        else:
            yield Finding(Grade.OK, Check.REPLICA_LAG, subject, what)


def behind_text(behind_bytes: int, behind_ms: int | None) -> str:
    if behind_bytes <= 0:
        return "has all that its master has"
    age = "" if behind_ms is None else f", the first of it waits for {units.duration(behind_ms)}"
    return f"is {units.size(behind_bytes)} behind its master{age}"


def _finding(one: HaSet, grade: Grade, check: Check, what: str, fix: str | None = None) -> Finding:
    return Finding(grade, check, _subject(one.broker_name), what, fix)


# --- facts that were not read in the middle of a handover ----------------------------------------------------------

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
