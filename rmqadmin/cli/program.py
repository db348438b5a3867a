"""The command line as a program: the options before the command, the run of one line, and its exit status.

Typer parses and prints help. What it cannot do is added in this package, each in one place: mqadmin's spellings
(``mqadmin_argv``), names in any case (``command_groups``), checks and defaults that hold for every command
(``registry_command``), and the steps around a command: ask, show, exit status (``command_run``). Commands are built
when they are invoked. Rich is slow to import, and never is for help or errors: ``rich_markup_mode`` is None.
"""

import os
import sys
from collections.abc import Sequence
from copy import copy
from typing import Annotated, Any

import typer
import typer.main

from rmqadmin.cli.invocation import Invocation, invocation_of
from rmqadmin.cli.options.common_options import ContextName, Value
from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.output.output_format import Color, Format, parse_format
from rmqadmin.cli.parsing.command_building import HELP_SETTINGS, TYPER_SETTINGS
from rmqadmin.cli.parsing.command_groups import LazyGroup
from rmqadmin.core.exit_codes import ExitCode
from rmqadmin.version import PIPE_CLOSED, print_version


def root(
    ctx: typer.Context,
    format: Annotated[
        str | None,
        Value.FORMAT,
        typer.Option("-o", "--output", metavar="FORMAT", help=f"{', '.join(Format)}. Environment: RMQADMIN_OUTPUT."),
    ] = None,
    context: ContextName = None,
    color: Annotated[
        Color, typer.Option("--color", help="Color the output. Also NO_COLOR, FORCE_COLOR, TERM=dumb.")
    ] = Color.AUTO,
    no_pager: Annotated[
        bool, typer.Option("--no-pager", help="Do not page long output. Also RMQADMIN_PAGER=cat.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", help="Show errors and questions, but no notices or progress.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Every mqadmin command, and what mqadmin lacks. COMMAND -h has examples."""
    if version:
        raise typer.Exit(print_version())
    invocation = invocation_of(ctx)
    invocation.choose(format)
    invocation.context_option = context
    invocation.color = invocation.color if color is Color.AUTO else color
    invocation.debug, invocation.with_pager = invocation.debug or debug, invocation.with_pager and not no_pager
    invocation.is_quiet = invocation.is_quiet or quiet
    diagnostics.be_quiet(invocation.is_quiet)
    if ctx.invoked_subcommand is None:
        if format is not None:  # a command's name may have been taken for it
            parse_format(format, "--output")
        sys.stdout.write(ctx.get_help() + "\n")


def build_app() -> Any:
    """The whole command tree. Commands are built when they are asked for."""
    app = typer.Typer(cls=LazyGroup, context_settings=HELP_SETTINGS, invoke_without_command=True, **TYPER_SETTINGS)
    app.callback()(root)
    return typer.main.get_command(app)


def run(argv: Sequence[str], before: Invocation | None = None) -> int:
    """Runs one command line; the exit status. ``before``: what a shell has set for all its lines."""
    invocation = Invocation() if before is None else copy(before)
    session, is_quiet = invocation.session, invocation.is_quiet
    try:
        app = build_app() if session is None else session.app(build_app)
        code = app.main(list(map(as_utf8, argv)), prog_name=diagnostics.PROGRAM, standalone_mode=False, obj=invocation)
        return int(code or ExitCode.OK)
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except (BrokenPipeError, SystemExit):  # the reader of our output went away, as `head` does; Typer then leaves
        diagnostics.send_nowhere(sys.stdout)
        return PIPE_CLOSED
    except Exception as error:
        if invocation.debug:
            raise
        from rmqadmin.cli.failures import told  # only for errors

        return told(error, invocation)
    finally:
        diagnostics.be_quiet(is_quiet)


def as_utf8(word: str) -> str:
    """A word of the command line read as UTF-8 in any locale: names and bodies are UTF-8."""
    return os.fsencode(word).decode("utf-8", "surrogateescape") if not word.isascii() else word
