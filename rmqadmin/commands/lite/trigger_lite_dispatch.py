"""``triggerLiteDispatch``: makes brokers offer a group its lite topics once more."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import A_BROKER_NAME, Group
from rmqadmin.cli.options.lite_options import ParentTopic
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.changes import Changes, Step, carry_out
from rmqadmin.core.topics.routes import broker_addr_of

_LINE = "{:<30} {:<12}\n"


def trigger_lite_dispatch(
    call: Call,
    parent_topic: ParentTopic,
    group: Group,
    client_id: Annotated[
        str | None,
        Value.CLIENT,
        typer.Option("-c", "--clientId", metavar="CLIENT", help="Offer them to this client only."),
    ] = None,
    broker_name: Annotated[
        str | None,
        A_BROKER_NAME,
        Value.BROKER_NAME,
        typer.Option("-b", "--brokerName", metavar="BROKER", help="Ask this broker only."),
    ] = None,
) -> Changes:
    """Helps a group that waits although it is behind. Consumes nothing and moves no offset.

    Examples:
      rmqadmin triggerLiteDispatch -p SessionTopic -g SessionGroup
      rmqadmin triggerLiteDispatch -p SessionTopic -g SessionGroup -c 192.168.0.7@1 -b broker-a
    """
    topic, name = parent_topic.strip(), group.strip()
    client = client_id.strip() if client_id is not None else None
    route = call.admin.topic_route(topic)
    names = [broker.broker_name for broker in route.broker_datas if broker.selected_addr()]
    if broker_name is not None:
        broker_addr_of(route, broker_name.strip())  # an unknown name is an error that lists the brokers
        names = [broker_name.strip()]
    rows = carry_out([_step(call, broker_addr_of(route, one), name, client) for one in names], dry_run=call.dry_run)
    lines = [
        _LINE.format(one, "error" if row.error is not None else "dispatched")
        for one, row in zip(names, rows, strict=True)
    ]
    text = f"Group And Topic Info: [{name}] [{topic}]\n\n" + "".join(lines)
    return Changes(rows, None if call.dry_run else text)


def _step(call: Call, addr: str, group: str, client_id: str | None) -> Step:
    return Step(addr, "dispatch", [], lambda: call.admin.trigger_lite_dispatch(addr, group, client_id))
