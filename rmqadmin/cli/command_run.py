"""The steps around a command: ask, show the result, write the log of changes, end with an exit status."""

from __future__ import annotations

import typing
from collections.abc import Callable
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING

from rmqadmin.cli import interrupts
from rmqadmin.cli.call import Call
from rmqadmin.cli.invocation import Invocation
from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.output.asked_columns import AS_USUAL, Look, ask_columns, pick_fields
from rmqadmin.cli.output.output_format import Format
from rmqadmin.cli.output.rendering import write
from rmqadmin.cli.parsing.registry_command import result_types
from rmqadmin.cli.registry import CHANGING, Effect, Entry
from rmqadmin.core.exit_codes import ExitCode
from rmqadmin.core.results import Result
from rmqproto.errors import DamageError, NotFoundError, RocketMQError, UsageError

if TYPE_CHECKING:
    from rmqadmin.cli.parsing.meant_names import Given
    from rmqadmin.core.audit_trail import Arguments


class PartlyFailedError(RocketMQError):
    """What could be done was done and shown. This error is about the rest."""


def run_command(
    entry: Entry,
    ask: Callable[[Call], Result],
    common: CommonOptions,
    invocation: Invocation,
    arguments: Callable[[], Arguments],
    names: Callable[[], list[Given]],
) -> int:
    """Runs the command and shows its result; the exit status, or an error. ``names``: the topics, groups and servers
    that the command line names."""
    interrupts.raise_again()
    common = invocation.filled(common)
    call = Call(entry.name, common, invocation, arguments)
    format = call.format
    if format is Format.MQADMIN and not entry.is_mqadmin and entry.effect in CHANGING | {Effect.SETTINGS}:
        raise UsageError(  # before anything is done, not when it is to be shown
            f"mqadmin has no command {entry.name}: nothing was done",
            hint="Use another format, for example --output table.",
        )
    picked, asked = None, AS_USUAL
    if common.json_fields is not None:
        picked = pick_fields(common.json_fields, common.jq, result_types(entry))
    if common.columns is not None or common.no_header:
        asked = ask_columns(common.columns, format, result_types(entry), has_header=not common.no_header)
    look = Look(format, call.color, asked, picked)
    interval_s = common.watch_s or common.interval_s
    if common.until is not None and interval_s is None:
        raise UsageError("--until needs --watch")
    result: Result | None = None
    asks_here = entry.effect not in (Effect.LOCAL, Effect.SETTINGS, Effect.SCREEN)
    with call.asking_limited() if asks_here else nullcontext(), closing(call):
        try:
            if entry.effect is Effect.SCREEN:
                return int(typing.cast(int | None, ask(call)) or ExitCode.OK)
            if interval_s is None:
                result = _asked(ask, call)
                _show(result, entry, look, invocation)
            else:
                from rmqadmin.cli.watch import parse_until, watch

                until = parse_until(common.until) if common.until is not None else None
                result = watch(lambda: _asked(ask, call), entry.name, look, interval_s, until, call.answers_problem)
            call.end_trail(result)
        except BaseException as error:
            call.end_trail(result, error)
            if isinstance(error, RocketMQError):
                from rmqadmin.cli.parsing.meant_names import advise

                advise(error, call, names())
            raise
    return _exit_status(result, call)


def _exit_status(result: Result, call: Call) -> int:
    """The exit status of a result that was shown. What is wrong in it is an error: PartlyFailedError, DamageError."""
    remark, status = result.remark(), result.exit_status()
    if remark is not None:
        diagnostics.notice(remark)
    silent = call.answers_problem()
    if status is not None:
        if silent is not None:
            diagnostics.notice(silent)
        return status
    problem, damage = result.problem() or silent, result.damage()
    if problem is not None:
        raise result.cause() or PartlyFailedError(problem)
    if damage is not None:
        raise DamageError(damage)
    return ExitCode.OK


def _asked(ask: Callable[[Call], Result], call: Call) -> Result:
    """The answer. PartlyFailedError if something was not found but some brokers did not answer: they may have it."""
    call.forget_answers()
    try:
        return ask(call)
    except NotFoundError as error:
        problem = call.answers_problem()
        if problem is None:
            raise
        raise PartlyFailedError(f"{error}, as far as is known: {problem}") from None


def _show(result: Result, entry: Entry, look: Look, invocation: Invocation) -> None:
    try:
        write(result, entry.name, look, with_pager=invocation.with_pager)
    except (RocketMQError, OSError, KeyboardInterrupt) as error:
        said = None if isinstance(error, UsageError) else result.stopped_by(error)
        if said is not None:
            diagnostics.notice(said)
        raise
