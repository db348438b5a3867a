"""Checks of each broker process: whether it is reached and serving, its clock, disks, permission, flush mode, and
access control."""

from __future__ import annotations

from collections.abc import Iterator

from rmqadmin.core import units
from rmqadmin.core.access.enforcement import SWITCH_ON, switches
from rmqadmin.core.health.broker_clock import clock_skew_ms
from rmqadmin.core.health.disk_limits import disk_limits, disk_percents
from rmqadmin.core.health.facts import BrokerFacts, ClusterFacts
from rmqadmin.core.health.health_finding import Check, Grade, HealthFinding
from rmqadmin.core.topics.perms import perm_words
from rmqclient.addresses import split_address
from rmqproto.errors import UsageError
from rmqproto.hosts import is_loopback
from rmqproto.perm import PERM_READ_WRITE
from rmqproto.wording import counted

SKEW_WARN_MS, SKEW_BAD_MS = 2_000, 60_000
"""Clocks decide when delayed messages, timers and retention are due, and how old a message appears."""

_WRITES, _FOLLOWS = "unwriteableReason", "followingProblem"
_PASSES = "disk of "
"""A broker of ours that names its disk so goes on by itself."""


def broker_findings(facts: ClusterFacts) -> Iterator[HealthFinding]:
    for broker in facts.brokers:
        yield from _reached(broker, facts)
        if broker.replica.error is None and broker.refusal is None:
            yield from _serving(broker)
            yield from _clock(broker)
            yield from _disks(broker)
            yield from _settings(broker)


def _finding(broker: BrokerFacts, grade: Grade, check: Check, what: str, fix: str | None = None) -> HealthFinding:
    return HealthFinding(grade=grade, check=check, subject=broker.name, what=what, fix=fix)


def _reached(broker: BrokerFacts, facts: ClusterFacts) -> Iterator[HealthFinding]:
    check, addr = Check.REACHABLE, broker.replica.broker_addr
    is_local = is_loopback_addr(addr)
    far = [namesrv.addr for namesrv in facts.namesrvs if not is_loopback_addr(namesrv.addr)]
    if broker.replica.error is not None:
        fix = "Start it, or open the way to it. If clients reach it at another address, it has to register that: "
        fix += "brokerIP1 in its settings (rmqserver: --advertise HOST:PORT). If only you reach it at another: "
        fix += f"--address-map {addr}=HOST:PORT."
        yield _finding(broker, Grade.ERROR, check, f"registered {addr}, but: {broker.replica.error}", fix)
    elif broker.refusal is not None:
        fix = "Give the keys of a user that may: --access-key and --secret-key, or a context."
        yield _finding(broker, Grade.ERROR, check, f"does not report its state: {broker.refusal}", fix)
    elif not (is_local and far):
        yield _finding(broker, Grade.OK, check, f"answers at {addr}, which it registered, in {broker.took_ms} ms")
    if is_local and far:
        fix = "Set brokerIP1 in its settings to an address that clients reach (rmqserver: --advertise HOST:PORT)."
        what = f"registered {addr}, which only its own machine can reach, with the name server {far[0]}"
        yield _finding(broker, Grade.WARNING, check, what, fix)


def is_loopback_addr(addr: str) -> bool:
    """Whether an address is reachable only from the machine that uses it."""
    try:
        host, _ = split_address(addr)
    except UsageError:
        return False
    return is_loopback(host)


def _serving(broker: BrokerFacts) -> Iterator[HealthFinding]:
    info = broker.replica.info
    if broker.replica.is_serving is False:
        fix = f"rmqadmin brokerStatus -b {broker.replica.broker_addr}"
        yield _finding(broker, Grade.ERROR, Check.SERVING, "reports that it does not serve", fix)
    if info.get(_WRITES):
        fix = "Make room or mend the disk, then start the broker again; its log says more."
        if info[_WRITES].startswith(_PASSES):
            fix = "Make room, and it goes on by itself."
        yield _finding(broker, Grade.ERROR, Check.SERVING, f"writes no messages: {info[_WRITES]}", fix)
    if info.get(_FOLLOWS):
        fix = "It goes on by itself when that is mended; its log says more."
        yield _finding(broker, Grade.ERROR, Check.SERVING, f"does not follow its master: {info[_FOLLOWS]}", fix)


def _clock(broker: BrokerFacts) -> Iterator[HealthFinding]:
    skew_ms = clock_skew_ms(broker.replica.info, broker.asked_ms, broker.answered_ms)
    if skew_ms is None:
        return
    if abs(skew_ms) < SKEW_WARN_MS:
        yield _finding(broker, Grade.OK, Check.CLOCK, "has the time of this machine, to the second")
        return
    grade = Grade.ERROR if abs(skew_ms) >= SKEW_BAD_MS else Grade.WARNING
    where = "ahead of" if skew_ms > 0 else "behind"
    what = f"its clock is {units.duration(abs(skew_ms))} {where} this machine's"
    yield _finding(broker, grade, Check.CLOCK, what, "Synchronise both with NTP (timedatectl, chronyc tracking).")


def _disks(broker: BrokerFacts) -> Iterator[HealthFinding]:
    limits, addr = disk_limits(broker.config), broker.replica.broker_addr
    keep_less = f"Make room, or keep less: rmqadmin updateBrokerConfig -b {addr} -k fileReservedTime -v HOURS"
    for what, percent in disk_percents(broker.replica.info).items():
        full = f"the disk of its {what} is {percent:g}% full"
        if percent > limits.full:
            yield _finding(
                broker, Grade.ERROR, Check.DISK, f"{full}: above {limits.full}% it takes no messages", keep_less
            )
        elif percent > limits.forcible:
            lost = f"above {limits.forcible}% it deletes messages whatever their age"
            yield _finding(broker, Grade.ERROR, Check.DISK, f"{full}: {lost}", keep_less)
        elif percent > limits.early:
            early = f"above {limits.early}% it deletes what has expired at any hour"
            yield _finding(broker, Grade.WARNING, Check.DISK, f"{full}: {early}", keep_less)
        else:
            yield _finding(broker, Grade.OK, Check.DISK, f"{full}, its first limit is {limits.early}%")


def _settings(broker: BrokerFacts) -> Iterator[HealthFinding]:
    config, addr = broker.config, broker.replica.broker_addr
    perm = config.get("brokerPermission", "")
    if perm.isdecimal() and int(perm) & PERM_READ_WRITE != PERM_READ_WRITE:
        fix = f"rmqadmin updateBrokerConfig -b {addr} -k brokerPermission -v {PERM_READ_WRITE}"
        yield _finding(
            broker, Grade.WARNING, Check.PERMISSION, f"permits only {perm_words(int(perm))} to all clients", fix
        )
    if config.get("flushDiskType") == "ASYNC_FLUSH" and broker.is_master:
        what = "acknowledges messages before they are on the disk: a power cut loses the last half second"
        fix = "If that is too much: flushDiskType=SYNC_FLUSH in its settings (rmqserver: --flush sync), and a restart."
        yield _finding(broker, Grade.NOTE, Check.FLUSH, what, fix)
    yield from _access(broker)


def _access(broker: BrokerFacts) -> Iterator[HealthFinding]:
    config, found = broker.config, switches(broker.config)
    checks_users, checks_rights = found.is_authenticating, found.is_authorizing
    bound, addr = config.get("bindAddress", ""), broker.replica.broker_addr
    is_open = not (is_loopback(bound) if bound else is_loopback_addr(addr))
    if checks_users and not checks_rights:
        what = "knows its users, but lets each do everything (authorizationEnabled is not true)"
        fix = "authorizationEnabled=true in its settings and a restart; `rmqadmin createAcl` says who may do what."
        yield _finding(broker, Grade.WARNING, Check.ACCESS, what, fix)
    elif found.is_plain:
        what = "checks accounts of plain_acl.yml and their permissions (ACL 1.0), or takes no notice of aclEnable, as "
        what += "Apache's brokers from 5.3.3 on"
        fix = (
            "migrateAuthFromV1Enabled=true, authenticationEnabled=true and authorizationEnabled=true in its settings, "
        )
        fix += "without aclEnable, and a new start: its accounts become users."
        yield _finding(broker, Grade.WARNING if is_open else Grade.NOTE, Check.ACCESS, what, fix)
    elif not checks_users and broker.user_count is not None:
        what = f"keeps {counted(broker.user_count, 'user')} and checks none: {found.lack}"
        yield _finding(broker, Grade.WARNING if is_open else Grade.NOTE, Check.ACCESS, what, f"{SWITCH_ON}.")
    elif not checks_users and is_open:
        what = f"listens on {bound or addr} and serves anybody: it checks no users"
        fix = "authenticationEnabled=true and authorizationEnabled=true in its settings and a restart, or listen on "
        fix += "127.0.0.1 only (rmqserver: --listen; Apache: bindAddress), or block its ports for others."
        yield _finding(broker, Grade.WARNING, Check.ACCESS, what, fix)
    else:
        what = "checks users and their rights" if checks_users else f"listens only on {bound or addr}"
        yield _finding(broker, Grade.OK, Check.ACCESS, what)
