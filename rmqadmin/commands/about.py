"""The program explains itself: manual pages, completions, response codes."""

import os
import textwrap
from collections.abc import Iterator, Sequence
from enum import Enum
from importlib import resources
from pathlib import Path
from typing import Annotated

from rmqadmin.cli import registry
from rmqadmin.cli.call import Call
from rmqadmin.cli.manual.pages import ManPage, command_page, program_page
from rmqadmin.cli.options.common_options import Value, argument, option
from rmqadmin.cli.parsing.command_tree import all_commands, describe
from rmqadmin.cli.prompt.candidates import offer_line, remembered_names
from rmqadmin.core.error_table import EXPLANATIONS, exit_code_of
from rmqadmin.core.results import FoundRows, ResultOf, Row, doc
from rmqproto.codes import ResponseCode, response_name
from rmqproto.errors import NotFoundError, UsageError
from rmqproto.java.java_numbers import whole_number

TEXT_WIDTH = 80
"""Wider lines are hard to read."""


class ManualRow(Row, frozen=True):
    page: Annotated[str, doc("name of the page, as `man` knows it where it is installed", key=True)]
    text: Annotated[str, doc("the page as plain text")]
    roff: Annotated[str, doc("the page in the language of `man`", wide=True)]


class Manual(ResultOf[ManualRow], frozen=True):
    """The page."""

    page: ManPage

    def rows(self) -> Sequence[ManualRow]:
        return [ManualRow(page=self.page.name, text="".join(self.page.text(TEXT_WIDTH)), roff=self.page.roff())]

    def cards(self, width: int | None, now_ms: int | None) -> Iterator[str] | None:
        return self.page.text(min(width or TEXT_WIDTH, TEXT_WIDTH))


def man(
    call: Call,
    words: Annotated[
        list[str] | None, Value.CHOICE, argument("Without it, the program's.", metavar="[COMMAND]")
    ] = None,
) -> Manual:
    """Works without `man`; long pages go through the pager. With `man`, and the package's share/man on its path,
    `man rmqadmin-topicRoute` shows the same.

      rmqadmin man
      rmqadmin man topicRoute
      rmqadmin man msg cat
    """
    if not words:
        return Manual(program_page(all_commands()))
    name = " ".join(words)
    entry = registry.find(name)
    if entry is None:
        members = ", ".join(f"`rmqadmin man {member.name}`" for member in registry.group_members(name))
        raise NotFoundError(f"there is no command {name!r}", hint=members or "`rmqadmin man` lists the commands.")
    return Manual(command_page(describe(entry)))


class Shell(Enum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


_FILES = {
    Shell.BASH: ("rmqadmin.bash", "XDG_DATA_HOME", ".local/share", "bash-completion/completions/rmqadmin"),
    Shell.ZSH: ("_rmqadmin", "XDG_DATA_HOME", ".local/share", "zsh/site-functions/_rmqadmin"),
    Shell.FISH: ("rmqadmin.fish", "XDG_CONFIG_HOME", ".config", "fish/completions/rmqadmin.fish"),
}
"""Our file; the variable of the folder where the shell looks for a user's own completions, its default, the place
there."""


class CompletionRow(Row, frozen=True):
    shell: Annotated[str, doc("the shell", key=True)]
    path: Annotated[str | None, doc("where the file was written; null if it was only shown")]
    text: Annotated[str, doc("what the shell reads", wide=True)]


class Completion(FoundRows[CompletionRow], frozen=True):
    """The completion of one shell."""

    def cards(self, width: int | None, now_ms: int | None) -> Iterator[str] | None:
        return (row.text if row.path is None else f"{row.path}\n" for row in self.found)


class OfferedWord(Row, frozen=True):
    text: Annotated[str, doc("what can stand at the end of the line, in place of its last word", key=True)]
    help: Annotated[str, doc("what it means")]


class OfferedWords(FoundRows[OfferedWord], frozen=True):
    """What can stand at the end of a line."""

    def cards(self, width: int | None, now_ms: int | None) -> Iterator[str] | None:
        return (f"{word.text}\t{word.help}\n" for word in self.found)


def completion(
    call: Call,
    shell: Annotated[Shell | None, argument("Whose completion.", metavar="bash|zsh|fish")] = None,
    install: Annotated[bool, option("--install", "Write it where the shell looks for it, for this user.")] = False,
    at: Annotated[
        str | None, option("--at", "What can stand at the end of this line: shells ask it.", metavar="LINE")
    ] = None,
) -> Completion | OfferedWords:
    """Prints the completion, or writes it where the shell finds it in its next session. Names of topics and groups are
    those that commands have seen: no server is asked.

      rmqadmin completion bash
      rmqadmin completion fish --install
    """
    if at is not None:
        found = offer_line(at, remembered_names)
        return OfferedWords([OfferedWord(text=each.text, help=" ".join(each.told.split())) for each in found])
    if shell is None:
        raise UsageError("whose completion?", hint="bash, zsh or fish")
    file, variable, default, place = _FILES[shell]
    text = resources.files("rmqadmin.cli.shells").joinpath(file).read_text()
    if not install:
        return Completion([CompletionRow(shell=shell.value, path=None, text=text)])
    try:
        path = Path(os.environ.get(variable) or Path.home() / default) / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except RuntimeError:
        raise UsageError("there is no home directory to install it in", hint="leave out --install") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint=f"rmqadmin completion {shell.value} prints it.") from None
    if shell is Shell.BASH:
        call.notice(f"bash reads it with the package bash-completion; without it, by this line in ~/.bashrc: . {path}")
    if shell is Shell.ZSH:
        call.notice(f"zsh reads it with this line before compinit in ~/.zshrc: fpath+=({path.parent})")
    return Completion([CompletionRow(shell=shell.value, path=str(path), text=text)])


class ExplanationRow(Row, frozen=True):
    code: Annotated[int, doc("response code, as on the wire")]
    name: Annotated[str, doc("its name", key=True)]
    exit_code: Annotated[int, doc("exit status of rmqadmin for it")]
    meaning: Annotated[str, doc("what it means")]
    hint: Annotated[str, doc("what to do about it")]


class Explanations(FoundRows[ExplanationRow], frozen=True):
    """What response codes mean."""

    def cards(self, width: int | None, now_ms: int | None) -> Iterator[str] | None:
        """Whole sentences for a single code, because a narrow table would cut them off."""
        if len(self.found) != 1:
            return None
        (row,) = self.found
        parts = {f"{row.code} {row.name}, ": f"exit status {row.exit_code}", "  ": row.meaning, "  hint: ": row.hint}
        lines = []
        for head, text in parts.items():
            indent = " " * (len(head) - len(head.lstrip()) + 2)
            lines += [head + text] if width is None else textwrap.wrap(head + text, width, subsequent_indent=indent)
        return (f"{line}\n" for line in lines)


def explained(code: int) -> ExplanationRow:
    told = EXPLANATIONS[code]
    return ExplanationRow(
        code=code, name=response_name(code), exit_code=exit_code_of(code), meaning=told.meaning, hint=told.hint
    )


def explain(
    call: Call,
    code: Annotated[
        str | None, Value.CHOICE, argument("Number or name; without it, all codes.", metavar="[CODE]")
    ] = None,
) -> Explanations:
    """Brokers and name servers answer with response codes; errors show them in brackets, with their names.

    rmqadmin explain 17
    rmqadmin explain TOPIC_NOT_EXIST
    rmqadmin -o json explain
    """
    if code is None:
        return Explanations([explained(int(known)) for known in EXPLANATIONS])
    wanted = code.strip().upper()
    names = {name.name: int(name) for name in ResponseCode}
    number = names.get(wanted, whole_number(wanted))
    if number not in EXPLANATIONS:
        raise NotFoundError(f"nothing is known about the response code {code!r}", hint="`rmqadmin explain` lists them.")
    return Explanations([explained(number)])
