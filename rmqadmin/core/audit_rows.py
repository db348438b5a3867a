"""The log of changes as rows, one for each server that a command changed."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from rmqadmin.core.audit_trail import AuditedCommand
from rmqadmin.core.changes import FieldChange
from rmqadmin.core.results import TIME, ResultColumn, Row, doc, row_of


class AuditRow(Row, frozen=True):
    time_ms: Annotated[int, TIME, doc("when the command began to change something")]
    user: Annotated[str | None, doc("who: the user of the process", minor=True)]
    host: Annotated[str | None, doc("on which machine", wide=True)]
    context: Annotated[str | None, doc("the context; tables show the name servers if none counted", minor=True)]
    namesrv_addr: Annotated[str | None, doc("the name servers", wide=True)]
    command: Annotated[str | None, doc("the command", vital=True)]
    arguments: Annotated[dict[str, Any], doc("its options, but for free text")]
    target: Annotated[str | None, doc("the server; none if the answer says nothing of single ones")]
    action: Annotated[str | None, doc("create, change, delete and so on")]
    changes: Annotated[list[FieldChange], doc("field, before, after; secrets are not written down")]
    outcome: Annotated[str, doc("done, failed, partly failed, interrupted; unfinished: running or killed", vital=True)]
    error: Annotated[str | None, doc("why it failed", sparse=True)]
    id: Annotated[str, doc("of the command", key=True, wide=True)]

    def shown(self, column: ResultColumn) -> Any:
        if column.name == "context" and self.context is None:
            return self.namesrv_addr
        return super().shown(column)


def audit_rows(one: AuditedCommand) -> list[AuditRow]:
    begin, end = one.begin, one.end
    whole = row_of(
        AuditRow,
        begin,
        target=None,
        action=None,
        changes=[],
        outcome="unfinished" if end is None else end.outcome or "",
        error=None if end is None else end.error,
    )
    if end is None or not end.changes:
        return [whole]
    return [
        msgspec.structs.replace(
            whole,
            target=each.target,
            action=each.action,
            changes=each.changes,
            outcome="done" if each.done else "failed",
            error=each.error,
        )
        for each in end.changes
    ]
