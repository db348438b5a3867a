"""``audit``: shows the log of the changes made by this user's commands."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import LONG
from rmqadmin.cli.options.value_markers import Value, option
from rmqadmin.cli.registry import find
from rmqadmin.core.audit_trail import AuditedCommand, read_commands_untrusted
from rmqadmin.core.changes import FieldChange
from rmqadmin.core.results import TIME, ResultColumn, ResultOf, Row, doc
from rmqproto.times import time_range
from rmqproto.wording import counted

_NO_CONTEXT = "none"


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


class Audited(ResultOf[AuditRow], frozen=True):
    """What was changed, one row a server, the oldest first."""

    found: list[AuditedCommand]
    wrong_count: int

    def rows(self) -> Sequence[AuditRow]:
        return [row for command in self.found for row in _rows(command)]

    def remark(self) -> str | None:
        return f"{counted(self.wrong_count, 'line')} of the log cannot be read" if self.wrong_count else None


def audit(
    call: Call,
    begin: Annotated[
        str | None, Value.TIME, option("--from", "--since", "At or after (1d: a day ago); or a range A..B.")
    ] = None,
    end: Annotated[str | None, Value.TIME, option("--to", "--until", "Before this time.")] = None,
    context: Annotated[
        str | None, Value.CONTEXT, option("--context", "Changes in this context; none: in no context.")
    ] = None,
    command: Annotated[str | None, Value.NAME, option("--command", "Changes by this command.")] = None,
    limit: Annotated[int | None, LONG, option("--limit", "The last N commands.", metavar="N", min=1)] = None,
) -> Audited:
    """Covers this user on this machine; `rmqadmin` keeps the log in the state directory (docs/changes.md). It holds no
    secrets.

    Examples:
      rmqadmin audit --since 1d
      rmqadmin audit --context live --command deleteTopic --output wide
      rmqadmin audit --limit 20 --output json
    """
    between = time_range(begin, end, call.now_ms(), "--from/--since", "--to/--until", tell=call.notice)
    entry = None if command is None else find(command.strip())
    wanted = command if entry is None else entry.name
    commands, wrong_count = read_commands_untrusted()
    found = [
        one
        for one in commands
        if (between.begin_ms is None or one.begin.time_ms >= between.begin_ms)
        and (between.end_ms is None or one.begin.time_ms < between.end_ms)
        and (context is None or (one.begin.context or _NO_CONTEXT) == context)
        and (wanted is None or one.begin.command == wanted)
    ]
    return Audited(found if limit is None else found[-limit:], wrong_count)


def _rows(one: AuditedCommand) -> list[AuditRow]:
    begin, end = one.begin, one.end
    whole = AuditRow(
        time_ms=begin.time_ms,
        user=begin.user,
        host=begin.host,
        context=begin.context,
        namesrv_addr=begin.namesrv_addr,
        command=begin.command,
        arguments=begin.arguments,
        target=None,
        action=None,
        changes=[],
        outcome="unfinished" if end is None else end.outcome or "",
        error=None if end is None else end.error,
        id=begin.id,
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
