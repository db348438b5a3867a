"""The steps around a command: ask, show the result, write the log of changes, end with an exit status."""

from __future__ import annotations

import sys
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
from rmqadmin.cli.output.output_format import JSON_FORMATS, Format
from rmqadmin.cli.output.rendering import schema, write
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
    invocation.as_json = format in JSON_FORMATS
    if format is Format.SCHEMA and entry.effect is not Effect.SCREEN:
        sys.stdout.write(schema(entry.result_types()))
        return ExitCode.OK
    if call.as_mqadmin and not entry.is_mqadmin and entry.effect in CHANGING | {Effect.SETTINGS}:
        raise UsageError(  # before anything is done, not when it is to be shown
            f"mqadmin has no command {entry.name}: nothing was done",
            hint="Use another format, for example --output table.",
        )
    picked, asked = None, AS_USUAL
    if common.json_fields is not None:
        picked = pick_fields(common.json_fields, common.jq, entry.result_types())
    if common.columns is not None or common.no_header:
        asked = ask_columns(common.columns, format, entry.result_types(), has_header=not common.no_header)
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
                result = ask(call)
                write(result, entry.name, look, with_pager=invocation.with_pager)
            else:
                from rmqadmin.cli.watch import parse_until, watch

                until = parse_until(common.until) if common.until is not None else None

                def ask_again() -> Result:
                    call.forget_answers()
                    return ask(call)

                result = watch(ask_again, entry.name, look, interval_s, until, call.answers_problem)
            call.end_trail(result)
        except BaseException as error:
            failure = _failure(error, result, call)
            call.end_trail(result, failure)
            if isinstance(failure, RocketMQError):
                from rmqadmin.cli.parsing.meant_names import advise

                advise(failure, call, names())
            if failure is not error:
                raise failure from None
            raise
    return _exit_status(result, call)


def _exit_status(result: Result, call: Call) -> int:
    """The exit status of a result that was shown. What is wrong in it is an error: PartlyFailedError, DamageError."""
    remark, status, problem, damage = result.remark(), result.exit_status(), result.problem(), result.damage()
    if remark is not None:
        diagnostics.notice(remark)
    silent = call.answers_problem()
    if status is not None:
        if silent is not None:
            diagnostics.notice(silent)
        return status
    problem = problem or silent
    if problem is not None:
        raise result.cause() or PartlyFailedError(problem)
    if damage is not None:
        raise DamageError(damage)
    return ExitCode.OK


def _failure(error: BaseException, result: Result | None, call: Call) -> BaseException:
    """The error that the command ends with: PartlyFailedError if something was not found but some brokers did not
    answer, for they may have it. Says what was done although its result could not be shown."""
    said = None if result is None or isinstance(error, UsageError) else result.stopped_by(error)
    if said is not None:
        diagnostics.notice(said)
    silent = call.answers_problem()
    if isinstance(error, NotFoundError) and silent is not None:
        return PartlyFailedError(f"{error}, as far as is known: {silent}")
    return error
