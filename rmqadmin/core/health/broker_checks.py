"""Checks of each broker process: whether it is reached and serving, its clock, disks, permission, flush mode, and
access control."""

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from rmqadmin.core import units
from rmqadmin.core.access.users import SWITCH_ON, switches
from rmqadmin.core.health.facts import BrokerFacts, ClusterFacts
from rmqadmin.core.health.finding import Check, Finding, Grade, Subject, SubjectKind
from rmqadmin.core.units import perm_words
from rmqproto.codes import PERM_READ_WRITE
from rmqproto.errors import UsageError
from rmqproto.hosts import is_loopback, split_address
from rmqproto.wording import counted

_KEYS = {
    "disk_used_percent_max": ("diskMaxUsedSpaceRatio", 75),
    "disk_used_percent_forcible": ("diskSpaceCleanForciblyRatio", 85),
    "disk_used_percent_full": ("diskSpaceWarningLevelRatio", 90),
}
"""Apache's keys by their fields in ``StoreOptions``, and its defaults for brokers that do not return them."""

LOG_RATIO, QUEUE_RATIO = "commitLogDiskRatio", "consumeQueueDiskRatio"


class DiskLimits(msgspec.Struct, frozen=True):
    """Percent of the disk. Above ``early``, expired files are deleted at any hour; above ``forcible``, files are
    deleted whatever their age; above ``full``, nothing is written."""

    early: int
    forcible: int
    full: int

    @property
    def error(self) -> int:
        return min(self.forcible, self.full)

    @property
    def warning(self) -> int:
        return min(self.early, self.error)


def disk_grade(percent: float, limits: DiskLimits) -> Grade | None:
    """How bad it is that a disk is so full; None up to the first limit."""
    if percent > limits.error:
        return Grade.ERROR
    return Grade.WARNING if percent > limits.warning else None


def disk_limits(config: Mapping[str, str]) -> DiskLimits:
    """The limits that a broker takes from its settings, within Apache's bounds."""
    from rmqserver.store.options import bounded_disk_percent

    def percent(field: str) -> int:
        key, default = _KEYS[field]
        text = config.get(key, "").strip()
        return bounded_disk_percent(field, int(text) if text.isdecimal() else default)

    return DiskLimits(*(percent(field) for field in _KEYS))


def disk_percents(info: Mapping[str, str]) -> dict[str, float]:
    """How full a broker's disks are: ``commit log``, with its path where it is on several, and ``consume queues``."""
    found: dict[str, float] = {}
    paths = [name for name in info if name.startswith(f"{LOG_RATIO}_")]
    names = (
        {name: f"commit log {name.partition('_')[2]}" for name in paths}
        if len(paths) > 1
        else {LOG_RATIO: "commit log"}
    )
    for name, what in {**names, QUEUE_RATIO: "consume queues"}.items():
        try:
            ratio = float(info.get(name, ""))
        except ValueError:
            continue
        if 0 <= ratio <= 1:  # brokers return -1 for a path that does not exist
            found[what] = round(ratio * 100, 2)
    return found


SKEW_WARN_MS, SKEW_BAD_MS = 2_000, 60_000
"""Clocks decide when delayed messages, timers and retention are due, and how old a message appears."""

PUT_SLOW_MS = 200
SEND_WAIT_MAX_MS = 200
"""Apache's brokers refuse a send that has waited longer (``waitTimeMillsInSendQueue``)."""

TIMERS_LATE_S = 10
"""How late a broker may deliver timer messages. Those of one second are in time for up to two."""

LOG_HELD_MAX_MS = 1000
"""Apache's brokers refuse sends while a put takes longer (``osPageCacheBusyTimeOutMills``)."""

_WRITES, _FOLLOWS = "unwriteableReason", "followingProblem"
_RUNTIME = re.compile(r"\[ (\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]")

_PASSES = re.compile("disk of |.*: (No space left on device|Disk quota exceeded)$")
"""A broker of ours that gives only such reasons goes on by itself."""


def broker_findings(facts: ClusterFacts) -> Iterator[Finding]:
    addrs = [namesrv.addr for namesrv in facts.namesrvs]
    return (found for broker in facts.brokers for found in findings_of_broker(broker, addrs))


def findings_of_broker(broker: BrokerFacts, namesrv_addrs: Iterable[str]) -> Iterator[Finding]:
    """Everything but how it differs from other brokers. ``namesrv_addrs``: where it registered."""
    if broker.gone_ms is not None:
        yield gone_finding(broker.name, broker.replica.broker_addr, broker.gone_ms, broker.asked_ms)
        return
    yield from _reached(broker, namesrv_addrs)
    if broker.error is None:
        yield from _serving(broker)
        yield from _puts(broker)
        yield from _timers(broker)
        yield from _clock(broker)
        yield from _disks(broker)
        yield from _settings(broker)


def gone_finding(name: str, addr: str, gone_ms: int, now_ms: int) -> Finding:
    what = f"gone {units.elapsed(now_ms - gone_ms)} ago: no name server lists it any more, at {addr}"
    fix = "Start it again. If it was taken out on purpose, it is forgotten a day after it was last seen."
    return Finding(Grade.ERROR, Check.REACHABLE, Subject(SubjectKind.BROKER, name), what, fix)


def _finding(broker: BrokerFacts, grade: Grade, check: Check, what: str, fix: str | None = None) -> Finding:
    return Finding(grade, check, broker.subject, what, fix)


def _reached(broker: BrokerFacts, namesrv_addrs: Iterable[str]) -> Iterator[Finding]:
    check, addr = Check.REACHABLE, broker.replica.broker_addr
    is_local = is_loopback_addr(addr)
    far = [each for each in namesrv_addrs if not is_loopback_addr(each)]
    if broker.replica.error is not None:
        fix = "Start it, or open the way to it. If clients reach it at another address, it has to register that: "
        fix += "brokerIP1 in its settings (rmqserver: --advertise HOST:PORT). If only you reach it at another: "
        fix += f"--address-map {addr}=HOST:PORT."
        yield _finding(
            broker, Grade.ERROR, check, f"does not answer at {addr}, which it registered: {broker.replica.error}", fix
        )
    elif broker.refusal is not None:
        fix = "Give the keys of a user that may: --access-key and --secret-key, or a context."
        yield _finding(broker, Grade.ERROR, check, f"does not report its state: {broker.refusal}", fix)
    elif not (is_local and far):
        core = broker.replica.info.get("core")  # ours only
        on_core = f", on its {core} core" if core else ""
        what = f"answers at {addr}, which it registered, in {broker.took_ms} ms{on_core}"
        yield _finding(broker, Grade.OK, check, what)
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


def _serving(broker: BrokerFacts) -> Iterator[Finding]:
    info = broker.replica.info
    if broker.replica.is_serving is False:
        fix = f"rmqadmin brokerStatus -b {broker.replica.broker_addr}"
        yield _finding(broker, Grade.ERROR, Check.SERVING, "reports that it does not serve", fix)
    if info.get(_WRITES):
        fix = "Make room or mend the disk, then start the broker again; its log says more."
        if all(_PASSES.match(reason) for reason in info[_WRITES].split("; ")):
            fix = "Make room, and it goes on by itself."
        yield _finding(broker, Grade.ERROR, Check.SERVING, f"writes no messages: {info[_WRITES]}", fix)
    if info.get(_FOLLOWS):
        fix = "It goes on by itself when that is mended; its log says more."
        yield _finding(broker, Grade.ERROR, Check.SERVING, f"does not follow its master: {info[_FOLLOWS]}", fix)


def _puts(broker: BrokerFacts) -> Iterator[Finding]:
    fix = f"Its disk or its load: rmqadmin brokerStatus -b {broker.replica.broker_addr}"
    held_ms = broker.replica.count("pageCacheLockTimeMills")
    if held_ms is not None and held_ms > LOG_HELD_MAX_MS:
        what = f"a put has held the commit log for {units.duration(held_ms)}: sends are refused"
        yield _finding(broker, Grade.ERROR, Check.PUTS, what, fix)
    wait_ms = broker.replica.count("sendThreadPoolQueueHeadWaitTimeMills")
    if wait_ms is not None and wait_ms > SEND_WAIT_MAX_MS:
        what = f"sends have waited for {units.duration(wait_ms)}: some are refused"
        yield _finding(broker, Grade.ERROR, Check.PUTS, what, fix)
    if broker.put_ms is not None and broker.put_ms > PUT_SLOW_MS:
        what = f"1 % of puts take more than {units.duration(broker.put_ms)}"
        yield _finding(broker, Grade.WARNING, Check.PUTS, what, fix)


def _timers(broker: BrokerFacts) -> Iterator[Finding]:
    late_s = broker.replica.count("timerReadBehind")
    if broker.is_master and late_s is not None and late_s >= TIMERS_LATE_S:
        fix = "Many that are due in one second take turns: spread their times (rmqclient: jitter_ms). "
        fix += f"Or its disk or its load: rmqadmin brokerStatus -b {broker.replica.broker_addr}"
        what = f"timer messages come {units.duration(late_s * 1000)} late"
        yield _finding(broker, Grade.WARNING, Check.TIMERS, what, fix)


def _clock(broker: BrokerFacts) -> Iterator[Finding]:
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


# Brokers do not return the time. They return when they started, and how long they have been running, in whole seconds
# (28), both by their own clock.


def broker_time_ms(info: Mapping[str, str]) -> int | None:
    """The broker's time when it answered, up to one second too early; None if it is not known."""
    found, boot = _RUNTIME.fullmatch(info.get("runtime", "").strip()), info.get("bootTimestamp", "")
    if found is None or not boot.isdecimal():
        return None
    days, hours, minutes, seconds = map(int, found.groups())
    return int(boot) + (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000


def clock_skew_ms(info: Mapping[str, str], asked_ms: int, answered_ms: int) -> int | None:
    """By how many ms the broker's clock is certainly ahead of ours (behind, if negative), given when we asked and when
    we had the answer. 0 if the clock may be right. None if the broker does not say."""
    told_ms = broker_time_ms(info)
    if told_ms is None:
        return None
    if told_ms > answered_ms:
        return told_ms - answered_ms
    return min(0, told_ms + 1000 - asked_ms)


def _disks(broker: BrokerFacts) -> Iterator[Finding]:
    limits, addr = disk_limits(broker.config), broker.replica.broker_addr
    keep_less = f"Make room, or keep less: rmqadmin updateBrokerConfig -b {addr} -k fileReservedTime -v HOURS"
    for what, percent in disk_percents(broker.replica.info).items():
        full, grade = f"the disk of its {what} is {percent:g}% full", disk_grade(percent, limits)
        if grade is None:
            yield _finding(broker, Grade.OK, Check.DISK, f"{full}, its first limit is {limits.early}%")
            continue
        effect = f"above {limits.early}% it deletes what has expired at any hour"
        if percent > limits.full:
            effect = f"above {limits.full}% it takes no messages"
        elif percent > limits.forcible:
            effect = f"above {limits.forcible}% it deletes messages whatever their age"
        yield _finding(broker, grade, Check.DISK, f"{full}: {effect}", keep_less)


def _settings(broker: BrokerFacts) -> Iterator[Finding]:
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


def _access(broker: BrokerFacts) -> Iterator[Finding]:
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
