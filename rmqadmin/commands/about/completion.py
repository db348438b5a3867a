"""``completion``: the file that a shell completes this program's lines with, and the words that it then asks for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from enum import Enum
from importlib import resources
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from rmqadmin.cli.call import Call
from rmqadmin.cli.prompt.candidates import offer_line
from rmqadmin.cli.prompt.remembered_names import remembered_names
from rmqadmin.core.results import Result, Row, doc
from rmqproto.errors import UsageError


class Shell(Enum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


_FILES = {Shell.BASH: "rmqadmin.bash", Shell.ZSH: "_rmqadmin", Shell.FISH: "rmqadmin.fish"}


class CompletionRow(Row, frozen=True):
    shell: Annotated[str, doc("the shell", key=True)]
    path: Annotated[str | None, doc("where the file was written; null if it was only shown")]
    text: Annotated[str, doc("what the shell reads", wide=True)]


class Completion(Result, frozen=True):
    """The completion of one shell."""

    row_type: ClassVar[type[Row]] = CompletionRow
    row: CompletionRow

    def rows(self) -> Sequence[CompletionRow]:
        return [self.row]

    def cards(self, width: int | None, now_ms: int | None) -> Iterator[str] | None:
        return iter([self.row.text] if self.row.path is None else [f"{self.row.path}\n"])


class OfferedWord(Row, frozen=True):
    text: Annotated[str, doc("what can stand at the end of the line, in place of its last word", key=True)]
    help: Annotated[str, doc("what it means")]


class OfferedWords(Result, frozen=True):
    """What can stand at the end of a line."""

    row_type: ClassVar[type[Row]] = OfferedWord
    words: list[OfferedWord]

    def rows(self) -> Sequence[OfferedWord]:
        return self.words

    def cards(self, width: int | None, now_ms: int | None) -> Iterator[str] | None:
        return (f"{word.text}\t{word.help}\n" for word in self.words)


def completion(
    call: Call,
    shell: Annotated[Shell | None, typer.Argument(metavar="bash|zsh|fish", help="Whose completion.")] = None,
    install: Annotated[
        bool, typer.Option("--install", help="Write it where the shell looks for it, for this user.")
    ] = False,
    at: Annotated[
        str | None, typer.Option("--at", metavar="LINE", help="What can stand at the end of this line: shells ask it.")
    ] = None,
) -> Completion | OfferedWords:
    """Prints the completion, or writes it where the shell finds it in its next session. Names of topics and groups are
    those that commands have seen: no server is asked.

    Examples:
      rmqadmin completion bash
      rmqadmin completion fish --install
    """
    if at is not None:
        found = offer_line(at, remembered_names)
        return OfferedWords([OfferedWord(text=each.text, help=" ".join(each.told.split())) for each in found])
    if shell is None:
        raise UsageError("whose completion?", hint="bash, zsh or fish")
    text = resources.files("rmqadmin.cli.shells").joinpath(_FILES[shell]).read_text()
    if not install:
        return Completion(CompletionRow(shell=shell.value, path=None, text=text))
    path = _path(shell)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint=f"rmqadmin completion {shell.value} prints it.") from None
    if shell is Shell.BASH:
        call.notice(f"bash reads it with the package bash-completion; without it, by this line in ~/.bashrc: . {path}")
    if shell is Shell.ZSH:
        call.notice(f"zsh reads it with this line before compinit in ~/.zshrc: fpath+=({path.parent})")
    return Completion(CompletionRow(shell=shell.value, path=str(path), text=text))


def _path(shell: Shell) -> Path:
    """Where the shell looks for a user's own completions. UsageError if there is no home directory."""
    try:
        home = Path.home()
    except RuntimeError:
        raise UsageError("there is no home directory to install it in", hint="leave out --install") from None
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    return {
        Shell.BASH: data / "bash-completion/completions/rmqadmin",
        Shell.ZSH: data / "zsh/site-functions/_rmqadmin",
        Shell.FISH: config / "fish/completions/rmqadmin.fish",
    }[shell]
