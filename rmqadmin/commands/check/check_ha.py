"""``check ha``: tells a monitoring system whether brokers have replicas that could take over, and how far those are
behind."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.health_options import (
    BrokerNames,
    Critical,
    LongCluster,
    Warning,
    health_clients,
    limits,
    require_answer,
)
from rmqadmin.core.health.facts import read_facts
from rmqadmin.core.health.finding import Finding, in_order
from rmqadmin.core.health.ha_checks import (
    ServerFacts,
    behind_text,
    controllers_findings,
    read_settled,
    registered_brokers,
    set_findings,
)
from rmqadmin.core.health.plugin_text import STATE_BY_GRADE, CheckedThing, CheckResult, Measure, PluginState, worst
from rmqadmin.core.health.thresholds import Quantity, Thresholds
from rmqadmin.core.servers.ha_reading import read_ha
from rmqadmin.core.servers.ha_sets import HaSet, in_sync_text
from rmqproto.wording import counted

_DEFAULTS = ("15s,256MiB", "1m,1GiB")


def check_ha(
    call: Call,
    broker: BrokerNames = None,
    warning: Warning = None,
    critical: Critical = None,
    cluster: LongCluster = None,
    in_sync: Annotated[
        int | None,
        typer.Option("--in-sync", metavar="COUNT", min=1, help="Critical if fewer are in sync, master included."),
    ] = None,
) -> CheckResult:
    """Critical: a set has no master or two; has fewer replicas in sync than it needs to take messages; has a slave that
    is ahead of its master or does not hear it; a master does not answer; or its controllers disagree or have no leader.
    Warning: not all are in sync, or a slave or a controller does not answer. Thresholds are how far a slave may be
    behind: the age of the first message that it lacks, and bytes (15s,256MiB; critical 1m,1GiB). Name servers forget a
    slave that is gone, so say with --in-sync how many there should be. Exit status 0 OK, 1 WARNING, 2 CRITICAL, 3
    UNKNOWN.

    Examples:
      rmqadmin check ha
      rmqadmin check ha -b broker-a -w 30s,1GiB -c 5m,10GiB
      rmqadmin check ha -b broker-a --in-sync 1
    """
    thresholds = limits(warning, critical, (Quantity.TIME_MS, Quantity.BYTES), _DEFAULTS)
    within = cluster.strip() if cluster else None
    with health_clients(call) as (admin, _):

        def read() -> ServerFacts:
            facts = read_facts(admin, within, with_tables=False)
            require_answer(facts, within, brokers_too=False)
            return ServerFacts(facts, read_ha(admin, registered_brokers(facts)))

        facts, found = read_settled(read, call.status)
    now_ms = call.now_ms()
    wanted = facts.broker_names(broker or ())
    sets = [one for one in found.sets if not wanted or one.broker_name in wanted]
    things = [checked_set(one, in_sync, thresholds, now_ms) for one in sets]
    missing = wanted - {one.broker_name for one in sets}
    things += [CheckedThing(name, PluginState.CRITICAL, "is not registered") for name in sorted(missing)]
    if not wanted and not sets:
        things.append(CheckedThing("brokers", PluginState.CRITICAL, "no name server knows one"))
    for group in found.controllers:
        if not wanted or wanted & set(group.broker_names):
            things += [
                CheckedThing(f"controller {one.subject.name}", STATE_BY_GRADE[one.grade], one.what)
                for one in controllers_findings(group)
                if one.grade in STATE_BY_GRADE
            ]
    return CheckResult(things, f"{counted(len(sets), 'set')} of brokers, {in_sync_text(sets)}")


def checked_set(
    one: HaSet, in_sync_wanted: int | None, thresholds: tuple[Thresholds, Thresholds], now_ms: int
) -> CheckedThing:
    """What is told about one set. ``in_sync_wanted``: how many there should be; None to take any number."""
    bad = in_order(each for each in set_findings(one, now_ms) if each.grade in STATE_BY_GRADE)
    states, words = [STATE_BY_GRADE[each.grade] for each in bad], [_told(one, each) for each in bad]
    measures = []
    count = one.in_sync_count
    if count is None:
        states.append(PluginState.UNKNOWN)
        words.append("nobody says who is in sync")
    else:
        measures.append(Measure(f"{one.broker_name} in sync", count))
        if in_sync_wanted is not None and count < in_sync_wanted:
            states.append(PluginState.CRITICAL)
            words.append(f"{count} in sync, and {in_sync_wanted} are wanted")
    for member in one.members:
        if member.error is not None and member.in_sync is not False:  # who is not in sync was told above
            states.append(PluginState.CRITICAL if member is one.master else PluginState.WARNING)
            words.append(f"{one.name_of(member)} cannot be asked: {member.error}")
    for slave in one.slaves:
        behind_bytes, behind_ms = one.behind_bytes(slave), one.behind_ms(slave, now_ms)
        if behind_bytes is None or behind_bytes < 0:
            continue
        mine = _measures(one.name_of(slave), behind_bytes, behind_ms, thresholds)
        measures += mine
        if (state := worst([each.state for each in mine])) is not PluginState.OK:
            states.append(state)
            words.append(f"{one.name_of(slave)} {behind_text(behind_bytes, behind_ms)}")
    well = "no slave is known" if len(one.members) == 1 else f"{count} of {len(one.members)} in sync"
    return CheckedThing(one.broker_name, worst(states), "; ".join(words) or well, measures)


def _told(one: HaSet, finding: Finding) -> str:
    return finding.what if finding.subject.name == one.broker_name else f"{finding.subject.name} {finding.what}"


def _measures(
    name: str, behind_bytes: int, behind_ms: int | None, thresholds: tuple[Thresholds, Thresholds]
) -> list[Measure]:
    """The measures of a slave. An unknown age is left out."""
    sizes = [each.get(Quantity.BYTES) for each in thresholds]
    found = [Measure(f"{name} behind", behind_bytes, "B", *sizes)]
    if behind_ms is not None:
        ages = [None if (limit := each.get(Quantity.TIME_MS)) is None else limit / 1000 for each in thresholds]
        found.append(Measure(f"{name} age", behind_ms / 1000, "s", *ages))
    return found
