"""``updateBrokerConfig``: one property, read back afterwards, because brokers pass over what they do not understand and
answer that all is well."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqadmin import targets
from rmqadmin.call import Call
from rmqadmin.changes import Changes, FieldChange, Step, carry_out, targets_done
from rmqadmin.options import BrokerAddr, ClusterName
from rmqadmin.output import Format
from rmqclient.admin import AdminClient
from rmqproto.errors import NotFoundError, RocketMQError


class PassedOverError(RocketMQError):
    """The broker answered with success and kept its old value."""


def update_broker_config(
    call: Call,
    key: Annotated[str, typer.Option("-k", "--key", metavar="NAME", help="Name of the property.")],
    value: Annotated[str, typer.Option("-v", "--value", metavar="TEXT", help="Its new value.")],
    broker_addr: BrokerAddr = None,
    cluster_name: ClusterName = None,
    update_all_broker: Annotated[
        str | None, typer.Option("-a", "--updateAllBroker", help="With -c and any value: slaves too.")
    ] = None,
) -> Changes:
    """The value is read back: a property that a broker does not know, or a value that it does not understand, is an
    error. mqadmin calls that a success, and --output mqadmin does too.

    Examples:
      rmqadmin updateBrokerConfig -b 127.0.0.1:10911 -k traceOn -v true
      rmqadmin updateBrokerConfig -c DefaultCluster -k fileReservedTime -v 48 --dry-run
    """
    key, value = key.strip(), value.strip()
    addrs = targets.masters(call.admin, broker_addr, cluster_name)
    if cluster_name is not None and update_all_broker is not None:
        brokers = targets.cluster(call.admin, cluster_name)
        addrs = [addr for broker in brokers for _, addr in sorted(broker.broker_addrs.items())]
    is_checked = call.format is not Format.MQADMIN
    rows = carry_out(call, [_plan(call.admin, addr, key, value, is_checked) for addr in addrs])
    done = "".join(f"update broker config success, {addr}\n" for addr in targets_done(rows))
    return Changes(rows, None if call.dry_run else done)


def _plan(admin: AdminClient, addr: str, key: str, value: str, is_checked: bool) -> Step:
    before = admin.broker_config(addr).get(key)
    if before is None and is_checked:
        raise NotFoundError(
            f"the broker {addr} has no property {key}", hint=f"`rmqadmin getBrokerConfig -b {addr}` lists them."
        )
    changes = [FieldChange(key, before, value)] if before != value else []

    def act() -> None:
        admin.update_broker_config(addr, {key: value})
        after = admin.broker_config(addr).get(key) if is_checked and changes else value
        if after == before and value.lower() != (before or "").lower():
            raise PassedOverError(f"the broker {addr} does not take {value!r} for {key}, which stays {before!r}")

    return Step(addr, "change" if changes else "keep", changes, act)
