"""``check dlq``: tells a monitoring system how many dead letters there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.health_options import Critical, Groups, Warning, health_clients, limits
from rmqadmin.cli.options.replay_options import Ledger
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core import targets
from rmqadmin.core.health.plugin_text import CheckedThing, CheckResult, Measure, PluginState
from rmqadmin.core.health.thresholds import Quantity
from rmqadmin.core.messages.dead_letters import check_group, count_between, dead_letter_groups
from rmqproto.errors import NotFoundError, RocketMQError
from rmqproto.names import dlq_topic, retry_topic
from rmqproto.times import time_range
from rmqproto.wording import counted

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient


def check_dlq(
    call: Call,
    group: Groups = None,
    since: Annotated[
        str | None,
        Value.NUMBER,
        typer.Option("--since", metavar="TIME", help="Count only those stored since then, e.g. 1h; or a range A..B."),
    ] = None,
    until: Annotated[
        str | None, Value.NUMBER, typer.Option("--until", metavar="TIME", help="Count only those before.")
    ] = None,
    warning: Warning = None,
    critical: Critical = None,
    ledger: Ledger = None,
) -> CheckResult:
    """Thresholds are dead letters of one group (10) that were not redriven, by the ledgers of this machine. Default:
    -w 0, so one dead letter is a warning. Only retention removes dead letters; --since ignores the old ones sooner. A
    group that no broker knows is UNKNOWN. Exit status 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.

    Examples:
      rmqadmin check dlq -g OrderGroup --since 1h -w 10 -c 100
      rmqadmin check dlq -g OrderGroup
    """
    below, above = limits(warning, critical, (Quantity.COUNT,), ("0", None))
    between = time_range(since, until, call.now_ms(), tell=call.notice)
    with health_clients(call) as (admin, _):
        existing = dead_letter_groups(admin)
        wanted = sorted({name.strip() for name in group}) if group else list(existing)
        for name in wanted:
            check_group(name)

        redriven_counts: list[int] = []

        def look(name: str) -> CheckedThing:
            try:
                if name not in existing:
                    _require_known(admin, name)
                count, redriven = (0, 0)
                if name in existing:
                    count, redriven = count_between(admin, dlq_topic(name), between, ledger)
            except RocketMQError as error:
                return CheckedThing(name, PluginState.UNKNOWN, str(error))
            redriven_counts.append(redriven)
            left = count - redriven
            label = "dead letters" if len(group or ()) == 1 else f"{name} dead letters"
            measure = Measure(label, left, "", below.get(Quantity.COUNT), above.get(Quantity.COUNT))
            beside = f" left, {redriven:,} redriven" if redriven else ""
            return CheckedThing(name, measure.state, counted(left, "dead letter") + beside, [measure])

        things = targets.ask_each(look, wanted)
    total = sum(measure.value for thing in things for measure in thing.measures)
    left = " left" if any(redriven_counts) else ""
    return CheckResult(things, f"{counted(len(things), 'group')} with {counted(round(total), 'dead letter')}{left}")


def _require_known(admin: AdminClient, group: str) -> None:
    """NotFoundError if a group without dead letters does not exist: its name may be mistyped."""
    if targets.find_route(admin, retry_topic(group)) is not None:
        return
    addrs = targets.selected_addrs(targets.all_brokers(admin.cluster_info()))
    if not any(targets.ask_each(lambda addr: group in admin.all_groups(addr).subscription_group_table, addrs)):
        raise NotFoundError(f"no broker knows the group {group}")
