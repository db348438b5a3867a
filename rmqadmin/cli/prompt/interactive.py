"""The interactive shell: the prompt, the completions at TAB, and what Ctrl-C and Ctrl-D do."""

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import History
from prompt_toolkit.output import ColorDepth

from rmqadmin.cli import registry
from rmqadmin.cli.call_context import color_of
from rmqadmin.cli.invocation import Session
from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.output.output_format import wants_color
from rmqadmin.cli.output.terminal_guard import guard_terminal
from rmqadmin.cli.parsing.command_building import build_command
from rmqadmin.cli.parsing.mqadmin_argv import normalise
from rmqadmin.cli.parsing.registry_command import RegistryCommand, option_specs
from rmqadmin.cli.prompt.candidates import offer, read_words
from rmqadmin.cli.prompt.command_lines import PROGRAM_MARK, CommandLines, ShellEnd, command_words
from rmqadmin.cli.prompt.line import parse_line
from rmqadmin.cli.prompt.live_names import LiveNames
from rmqadmin.core.audit_trail import SECRET_NAME
from rmqadmin.core.contexts.context import badge
from rmqadmin.core.contexts.settings import CONTEXT_VARIABLE, Level
from rmqadmin.core.exit_codes import ExitCode
from rmqadmin.core.files import make_private_dir, state_dir, write_private
from rmqadmin.core.terminal_text import shortened_in_middle
from rmqproto.errors import RocketMQError, UsageError

LINES_MAX = 5000
_LIKE_SECRET_OPTION = re.compile(r"(^|\s)-(sk|p)", re.IGNORECASE)
_ANY_VALUE = "--value"


class CommandHistory(History):
    """The history. If the file cannot be read or written, there is no history, and no error."""

    def __init__(self, is_secret: Callable[[str], bool], path: Path | None = None):
        super().__init__()
        self.path = path or state_dir() / "shell_history"
        self._is_secret = is_secret

    def load_history_strings(self) -> Iterable[str]:
        """The lines, newest first."""
        with contextlib.suppress(OSError):
            lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
            if len(lines) > 2 * LINES_MAX:
                lines = lines[-LINES_MAX:]
                write_private(self.path, "".join(f"{line}\n" for line in lines))
            return lines[::-1]
        return []

    def store_string(self, string: str) -> None:
        lines = [line for line in string.splitlines() if line.strip()]
        if not lines or string[:1].isspace() or any(map(self._is_secret, lines)):
            return
        with contextlib.suppress(OSError):
            make_private_dir(self.path.parent)
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.fchmod(file, 0o600)
                os.write(file, "".join(f"{line}\n" for line in lines).encode(errors="replace"))
            finally:
                os.close(file)


def holds_secret(line: str, build: Callable[[str], RegistryCommand]) -> bool:
    """Whether a line contains a password or a key, as far as that can be told; True if in doubt. ``build`` makes the
    command with a given name."""
    if line.lstrip().startswith(PROGRAM_MARK):
        return bool(SECRET_NAME.search(line))
    parsed = parse_line(line)
    if parsed.piped_to is not None and SECRET_NAME.search(parsed.piped_to):
        return True
    try:
        read = read_words(command_words(parsed))
        if read.command is None:
            raise UsageError("no command")
        command = build(read.command.entry.name)
        seen = normalise(read.args, option_specs(command)).seen
    except UsageError:
        return bool(SECRET_NAME.search(line) or _LIKE_SECRET_OPTION.search(line))
    return bool(seen & command.secret_options) or (_ANY_VALUE in seen and bool(SECRET_NAME.search(line)))


_ADDR_WIDTH_MAX = 40
"""A longer list of name servers would leave no room for a command."""
_RED, _PLAIN = "\x1b[31m", "\x1b[0m"


def converse(commands: CommandLines, session: Session) -> None:
    """Runs lines until Ctrl-D or ``exit``."""
    guard_terminal()
    has_color = wants_color(color_of(commands.before.color, session.options.settings()), sys.stdout)
    completer = LiveCompleter(session)
    prompt: PromptSession[str] = PromptSession(
        history=CommandHistory(lambda line: holds_secret(line, _build)),
        completer=completer,
        complete_while_typing=False,  # each key would ask the cluster
        complete_in_thread=True,
        enable_suspend=True,
        color_depth=None if has_color else ColorDepth.DEPTH_1_BIT,
    )
    diagnostics.notice("TAB completes, Ctrl-R searches what was typed, Ctrl-D leaves; `help` lists the commands")
    status = int(ExitCode.OK)
    while True:
        completer.forget()
        try:
            text = prompt.prompt(ANSI(head(session, status, has_color=has_color)))
            status = _run(commands, text) if text.strip() else status
        except KeyboardInterrupt:  # at the prompt: abandons the line and begins a new one
            status = ExitCode.OK
        except (EOFError, ShellEnd):
            return


def _run(commands: CommandLines, text: str) -> int:
    """Runs the lines of a text, which may be pasted, up to the first that fails; its status."""
    status = int(ExitCode.OK)
    for line in text.splitlines():
        status = commands.run(line)
        if status == ExitCode.INTERRUPTED:
            sys.stdout.write("\n")  # after the terminal's ^C
        if status != ExitCode.OK:
            break
    return status


def _build(name: str) -> RegistryCommand:
    entry = registry.find(name)
    assert entry is not None
    return build_command(entry)


def head(session: Session, status: int, *, has_color: bool) -> str:
    """The prompt ``[live] 5> ``: the context in its colour, the name servers if they are not the context's, and the
    last command's status if it failed."""
    settings = session.filled(CommonOptions()).settings()
    try:
        context, addr = settings.context, settings.setting("namesrv_addr")
        parts = [] if context is None else [badge(context, has_color=has_color)]
        if context is None or addr.level is not Level.CONTEXT:
            parts.append(shortened_in_middle(addr.value, _ADDR_WIDTH_MAX))
    except RocketMQError:  # the next command says what is wrong with its file
        parts = [f"[{session.options.context or os.environ.get(CONTEXT_VARIABLE)}?]"]
    if status != ExitCode.OK:
        parts.append(f"{_RED}{status}{_PLAIN}" if has_color else str(status))
    return " ".join(parts) + "> "


class LiveCompleter(Completer):
    """The completions at TAB; names are asked for once per prompt."""

    def __init__(self, session: Session):
        self._session = session
        self.forget()

    def forget(self) -> None:
        """Drops the names of the cluster, which the last command may have changed."""
        self._names = LiveNames(self._session)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        found = offer(before, self._names.of)
        for each in found.candidates:
            yield Completion(
                each.text + each.behind, found.start - len(before), display=each.text, display_meta=each.told
            )
