"""The dialogs of `updateBrokerConfig`, and of `wipeWritePerm` and `addWritePerm`."""

from __future__ import annotations

from collections.abc import Sequence

from rmqadmin.core import targets
from rmqadmin.core.changes import Step, plan_each
from rmqadmin.core.servers.namesrv_tables import WritePerms, change_write_perm, require_broker
from rmqadmin.core.servers.server_configs import MEANINGS, plan_broker_property
from rmqadmin.tui.dialogs.change import Ask, ChangeDialog, in_steps
from rmqadmin.tui.dialogs.fields import FormField, place_field


def broker_property(key: str, value: str, broker_addr: str) -> ChangeDialog:
    """Reads the value back, because brokers report success even for values that they do not understand."""

    def plan(ask: Ask) -> list[Step]:
        addrs = targets.masters(ask.admin, *ask.said["on"])
        return plan_each(addrs, lambda addr: plan_broker_property(ask.admin, addr, key, ask.said["value"] or ""))

    fields = [
        FormField(name="value", label="value", value=value),
        place_field(broker_addr, "this broker, or a cluster's masters"),
    ]
    meaning = MEANINGS.get(key, "Apache's manual of the broker says what it means")
    return ChangeDialog(
        f"Property {key}", in_steps("updateBrokerConfig", plan), name=key, fields=fields, about=f"{meaning}."
    )


def write_perm(broker_name: str) -> ChangeDialog:
    """On all name servers."""

    def change(ask: Ask, may_write: bool, only: Sequence[str] | None = None) -> WritePerms:
        require_broker(ask.admin, broker_name)
        found = change_write_perm(ask.admin, broker_name, may_write=may_write, dry_run=ask.dry_run, only=only)
        if (back := found.way_back()) is not None:
            ask.notice(f"to undo this: {back}")
            ask.undo_by(lambda again: change(again, not may_write, found.may_be_done))
        return found

    options = {"removed: producers use other brokers, consumers stay": False, "restored": True}
    field = FormField(name="may_write", label="it is", value=False, options=options, is_list=True)
    return ChangeDialog(
        f"Write permission of the broker {broker_name}", lambda ask: change(ask, ask.said["may_write"]),
        name=broker_name, fields=[field],
    )  # fmt: skip
