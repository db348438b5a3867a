"""``audit``: shows the log of the changes made by this user's commands."""

from collections.abc import Sequence
from typing import Annotated

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import LONG
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.cli.registry import find
from rmqadmin.core.audit_trail import AuditedCommand, AuditRow, audit_rows, read_commands_untrusted
from rmqadmin.core.contexts.context import NO_CONTEXT
from rmqadmin.core.results import ResultOf
from rmqproto.times import time_range
from rmqproto.wording import counted


class Audited(ResultOf[AuditRow], frozen=True):
    """What was changed, one row a server, the oldest first."""

    found: list[AuditedCommand]
    wrong_count: int

    def rows(self) -> Sequence[AuditRow]:
        return [row for command in self.found for row in audit_rows(command)]

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
        and (context is None or (one.begin.context or NO_CONTEXT) == context)
        and (wanted is None or one.begin.command == wanted)
    ]
    return Audited(found if limit is None else found[-limit:], wrong_count)
