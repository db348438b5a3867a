"""``fault set``: makes requests fail by rules."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import BrokerAddr, NamedCluster
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.changes import Changes
from rmqadmin.core.servers.own_requests import meant_brokers, set_faults
from rmqproto.fault_rules import parse_rule


def fault_set(
    call: Call,
    rules: Annotated[
        list[str], Value.NAME, typer.Argument(metavar="RULE...", help="REQUEST:WHAT[:WHICH], docs/testing.md.")
    ],
    broker_addr: BrokerAddr = None,
    cluster_name: NamedCluster = None,
) -> Changes:
    """These rules replace the earlier ones at once. REQUEST is a name, a code, or * for all. WHAT is delay=TIME,
    error=CODE, drop, lose-answer or disconnect; WHICH narrows it down: share=0.1, count=2, topic=T, group=G. The first
    matching rule decides. While everything fails, -b is needed, because the name server does not answer either.

    Examples:
      rmqadmin fault set SEND_MESSAGE:error=SYSTEM_BUSY:count=2
      rmqadmin fault set PULL_MESSAGE:delay=200ms:share=0.1 SEND_MESSAGE:drop:topic=OrderTopic -b 127.0.0.1:10911
      rmqadmin fault set '*:disconnect:share=0.01' --dry-run
    """
    wanted = [parse_rule(rule).text for rule in rules]
    return set_faults(call.admin, meant_brokers(call.admin, broker_addr, cluster_name), wanted, dry_run=call.dry_run)
