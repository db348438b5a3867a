"""``check broker``: tells a monitoring system whether brokers can be reached and serve clients."""

from __future__ import annotations

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
from rmqadmin.core.health.broker_checks import broker_findings
from rmqadmin.core.health.cluster_checks import cluster_findings
from rmqadmin.core.health.facts import BrokerFacts, ClusterFacts, read_facts
from rmqadmin.core.health.finding import Check, Finding, in_order
from rmqadmin.core.health.plugin_text import STATE_BY_GRADE, CheckedThing, CheckResult, Measure, PluginState, worst
from rmqadmin.core.health.thresholds import Quantity, Thresholds
from rmqproto.wording import counted

CHECKS = frozenset({Check.REACHABLE, Check.SERVING, Check.PERMISSION, Check.ROLES, Check.BROKER_NAMES})
"""The doctor's checks that tell whether a broker does its work."""


def check_broker(
    call: Call,
    broker: BrokerNames = None,
    warning: Warning = None,
    critical: Critical = None,
    cluster: LongCluster = None,
) -> CheckResult:
    """Critical: a broker does not answer at its registered address, does not serve, has no master, or is named but not
    registered. Warning: it keeps some clients out, or a name server is down. Thresholds, if given, are for the time of
    its answer (500ms). Exit status 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.

    Examples:
      rmqadmin check broker
      rmqadmin check broker -b broker-a -w 10s -c 20s
    """
    thresholds = limits(warning, critical, (Quantity.TIME_MS,), (None, None))
    with health_clients(call) as (admin, _):
        facts = read_facts(admin, cluster.strip() if cluster else None, with_tables=False)
    require_answer(facts, None, brokers_too=False)  # no broker at all is critical
    found = [one for one in (*broker_findings(facts), *cluster_findings(facts)) if one.check in CHECKS]
    wanted = facts.broker_names(broker or ())
    brokers = [one for one in facts.brokers if not wanted or one.replica.broker_name in wanted]
    things = [_thing(one, found, thresholds) for one in brokers]
    things += _missing(facts, wanted)
    things += [
        CheckedThing(one.addr, PluginState.WARNING, one.error) for one in facts.namesrvs if one.error is not None
    ]
    return CheckResult(things, f"{counted(len(brokers), 'broker')} serve")


def _missing(facts: ClusterFacts, wanted: set[str]) -> list[CheckedThing]:
    missing = wanted - {one.replica.broker_name for one in facts.brokers}
    if not wanted and not facts.brokers:
        return [CheckedThing("brokers", PluginState.CRITICAL, "no name server knows one")]
    return [CheckedThing(name, PluginState.CRITICAL, "is not registered") for name in sorted(missing)]


def _thing(broker: BrokerFacts, found: list[Finding], thresholds: tuple[Thresholds, Thresholds]) -> CheckedThing:
    names = {broker.name, broker.replica.broker_name, broker.replica.broker_addr}
    mine = in_order(one for one in found if one.subject.name in names and one.grade in STATE_BY_GRADE)
    warning, critical = (each.get(Quantity.TIME_MS) for each in thresholds)
    measures = [
        Measure(
            f"{broker.name} time",
            broker.took_ms / 1000,
            "s",
            None if warning is None else warning / 1000,
            None if critical is None else critical / 1000,
        )
    ]
    states = [*(STATE_BY_GRADE[one.grade] for one in mine), measures[0].state]
    what = "; ".join(one.what for one in mine) or f"serves, answered in {broker.took_ms} ms"
    return CheckedThing(broker.name, worst(states), what, measures if broker.replica.error is None else [])
