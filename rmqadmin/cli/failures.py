"""What is said about an error that ends a command line, and the exit status it ends with."""

import sys
from contextlib import suppress

from rmqadmin.cli import registry
from rmqadmin.cli.invocation import Invocation
from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.output.output_format import JSON_FORMATS
from rmqadmin.cli.registry import Effect
from rmqadmin.core.contexts.permission import ChangeRefusedError
from rmqadmin.version import write_problem
from rmqproto.errors import RocketMQError, UsageError


class DefectError(RocketMQError):
    """An unexpected error."""


def told(error: Exception, invocation: Invocation) -> int:
    """Reports the error that ended a command line; the exit status."""
    as_json = invocation.as_json
    if as_json is None:  # it comes before the command knows its format; a broken file of settings counts as no
        with suppress(RocketMQError):
            as_json = str(CommonOptions().settings().setting("output").value).lower() in JSON_FORMATS
    mapped, entry, status = _mapped(error), registry.find(invocation.command or ""), None
    if entry is not None and entry.effect is Effect.CHECK:  # the monitoring system reads standard output
        from rmqadmin.core.health.plugin_text import PluginState, plugin_line

        status = PluginState.UNKNOWN
        if not as_json:
            with suppress(OSError):  # standard output may be what failed
                sys.stdout.write(plugin_line(status, str(mapped)) + "\n")
                sys.stdout.flush()
    return diagnostics.report(mapped, command=invocation.command, as_json=bool(as_json), exit_status=status)


def _mapped(error: Exception) -> Exception:
    """Any error as one of ours. Typer's are recognised by a method, because their classes move between its releases."""
    describe = getattr(error, "format_message", None)
    if describe is not None:
        called = getattr(getattr(error, "ctx", None), "command_path", None)
        return UsageError(describe(), hint=f"`{called} --help` shows its options and arguments." if called else None)
    if isinstance(error, RocketMQError | ChangeRefusedError):
        return error
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        return UsageError("a word of the command line, or a variable of the environment, is not UTF-8")
    if isinstance(error, OSError):  # mostly a full disk; errors that the code can foresee are refused where they arise
        return RocketMQError(write_problem(error))
    return DefectError(
        f"{type(error).__name__}: {error}", hint="This is a defect; --debug before the command shows where."
    )
