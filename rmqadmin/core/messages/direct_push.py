"""Makes one push consumer consume a stored message now (309)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.groups.consumption import brokers_of_group
from rmqadmin.core.messages.lookup import FoundMessage
from rmqadmin.core.mqadmin_text import java_bool, java_text
from rmqadmin.core.results import ResultOf, Row, doc
from rmqproto.bodies.statistics import ConsumeDirectlyResult
from rmqproto.errors import UsageError


class PushedRow(Row, frozen=True):
    message_id: Annotated[str, doc("unique key", key=True)]
    client_id: Annotated[str, doc("consumer that it was pushed to")]
    result: Annotated[str | None, doc("CR_SUCCESS, CR_LATER, CR_THROW_EXCEPTION ...; none under --dry-run")]
    remark: Annotated[str | None, doc("what the consumer says about it")]
    spent_ms: Annotated[int | None, doc("how long its listener took")]


class Pushed(ResultOf[PushedRow], frozen=True):
    """With -g and -d: messages consumed once more by one consumer."""

    client_id: str
    pushed: list[tuple[str, ConsumeDirectlyResult | None]]

    def rows(self) -> Sequence[PushedRow]:
        return [
            PushedRow(
                message_id=message_id,
                client_id=self.client_id,
                result=None if result is None else java_text(result.consume_result),
                remark=None if result is None else result.remark,
                spent_ms=None if result is None else result.spent_time_mills,
            )
            for message_id, result in self.pushed
        ]

    def mqadmin_text(self) -> str:
        return "".join(
            f"ConsumeMessageDirectlyResult [order={java_bool(result.order)}, "
            f"autoCommit={java_bool(result.auto_commit)}, "
            f"consumeResult={java_text(result.consume_result)}, remark={java_text(result.remark)}, "
            f"spentTimeMills={result.spent_time_mills}]\n"
            for _, result in self.pushed
            if result is not None
        )


def push(admin: AdminClient, messages: Sequence[FoundMessage], group: str, client_id: str, *, dry_run: bool) -> Pushed:
    """Makes one push consumer consume messages now."""
    addrs = targets.selected_addrs(brokers_of_group(admin, group))
    info = admin.consumer_running_info(addrs[0], group, client_id)
    if not info.is_push:
        raise UsageError(f"this {client_id} client is not push consumer ,not support direct push")
    pushed: list[tuple[str, ConsumeDirectlyResult | None]] = []
    for message in messages:
        stored = message.stored
        result = None
        if not dry_run:
            result = admin.consume_message_directly(
                message.broker_addr, group, client_id, stored.message_id, stored.topic
            )
        pushed.append((message.message_id, result))
    return Pushed(client_id, pushed)
