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
    as_json = _settings_say_json() if invocation.as_json is None else invocation.as_json
    mapped, entry = _mapped(error), registry.find(invocation.command or "")
    is_check = entry is not None and entry.effect is Effect.CHECK
    status = _unknown_state(mapped, as_json=as_json) if is_check else None
    return diagnostics.report(mapped, command=invocation.command, as_json=as_json, exit_status=status)


def _unknown_state(error: Exception, *, as_json: bool) -> int:
    """The status of a check that could not be made; says so to the monitoring system on standard output."""
    from rmqadmin.core.health.plugin_text import PluginState, plugin_line

    if not as_json:
        with suppress(OSError):  # standard output may be what failed
            sys.stdout.write(plugin_line(PluginState.UNKNOWN, str(error)) + "\n")
            sys.stdout.flush()
    return PluginState.UNKNOWN


def _settings_say_json() -> bool:
    """Whether the settings ask for JSON, for an error that comes before the command knows its format. A broken file
    counts as no."""
    try:
        return str(CommonOptions().settings().setting("output").value).lower() in JSON_FORMATS
    except RocketMQError:
        return False


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
