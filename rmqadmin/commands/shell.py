"""``shell``: runs many commands in one process."""

import sys
from typing import Annotated

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.common_options import option
from rmqproto.errors import UsageError


def shell(
    call: Call,
    lines: Annotated[
        list[str] | None, option("-c", "--command", "Run this line and end. Repeatable.", metavar="LINE")
    ] = None,
    keep_going: Annotated[bool, option("--keep-going", "Without a prompt: go on after a line that fails.")] = False,
) -> int:
    """Commands run in one process, over connections that stay open. TAB completes names of the live cluster. Server
    options given here hold for all lines; `context use` in a line holds for the lines after it. `!` runs a program,
    `|` pipes a command's output to one. Ctrl-C ends a command, Ctrl-D the shell. Lines from standard input or -c run
    until one fails; its status is then the shell's.

      rmqadmin shell
      rmqadmin --context live shell
      rmqadmin shell -n 127.0.0.1:9876 < morning.rmq
      rmqadmin shell -c 'topicList' -c 'consumerProgress -o json | head -20'
    """
    if call.invocation.session is not None:
        raise UsageError("this is the shell already")
    from rmqadmin.cli.prompt.command_lines import (
        CommandLines,  # 5 ms; not needed for its help
        given_lines,
        run_lines,
        script_lines,
        standard_input,
    )

    with call.shell_session() as session:
        before = msgspec.structs.replace(call.invocation, command=None, context_option=None, session=session)
        commands = CommandLines(before)
        if lines:
            return run_lines(given_lines(lines), commands, keep_going=keep_going)
        if sys.stdin.isatty() and sys.stdout.isatty():
            from rmqadmin.cli.prompt.interactive import converse  # 80 ms, for prompt_toolkit

            converse(commands, session)
            return 0
        call.tell_if_typed("commands")
        with standard_input() as raw:
            return run_lines(script_lines(raw), commands, keep_going=keep_going)
