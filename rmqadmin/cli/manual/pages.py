"""The content of the manual pages: one for the program, one for each command, all from the command tree."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

import msgspec

from rmqadmin.cli import registry
from rmqadmin.cli.parsing.command_tree import CommandInfo, OptionInfo, root_options, shared_options
from rmqadmin.cli.registry import Effect, Entry
from rmqadmin.core.contexts.settings import KINDS
from rmqadmin.core.exit_codes import EXIT_MEANINGS
from rmqadmin.core.results import columns
from rmqadmin.version import VERSION

_SOURCE = f"rmqadmin {VERSION}"
_CHANGING = (Effect.CHANGE, Effect.DESTROY, Effect.READ_OR_CHANGE, Effect.PROBE)

FORMATS = (
    ("table, wide", "For people; may change. Some columns are in wide only."),
    ("json, yaml", "One document: the command, a version, a summary, the items. What is unknown is null."),
    ("jsonl", "One item a line."),
    ("csv, tsv", "A heading and a line an item."),
    ("name", "The key of each item, one a line."),
    ("schema", "The fields, without asking any server."),
    ("mqadmin", "What mqadmin 5.5.0 prints, with rows sorted by name; never asks questions."),
)
_DESCRIPTION = (
    "Every command of `mqadmin` by its name and with its options, in any case and spelling that mqadmin takes, and what"
    " mqadmin lacks. Each command has a page of its own: `rmqadmin man COMMAND`, or `man rmqadmin-COMMAND` where the"
    " package's share/man is on the path of man."
)
_TIMES = (
    "`now`; `-10m`, `+2h`, `-1h30m` (units `ms s m h d w`); `@1676730526212` and `@1676730526` (epoch); ISO 8601, local"
    " time where no zone is given; mqadmin's `yyyy-MM-dd#HH:mm:ss:SSS`. A range is `A..B`, where a duration `B` counts"
    " from `A`."
)


def page_name(entry: Entry) -> str:
    return f"rmqadmin-{entry.name.replace(' ', '-')}"


def all_pages(commands: Sequence[CommandInfo]) -> list[ManPage]:
    """The program's page, and one for each command."""
    return [program_page(commands), *(command_page(command) for command in commands)]


def program_page(commands: Sequence[CommandInfo]) -> ManPage:
    """The program's page. ``commands`` are those whose shared options it describes."""
    variables = [
        (", ".join(kind.variables), f"As {kind.flag}; in a file of settings `{kind.key}`.") for kind in KINDS
    ]  # fmt: skip
    return ManPage(
        "rmqadmin",
        (
            section("NAME", Prose("rmqadmin - administer RocketMQ")),
            section("SYNOPSIS", Verbatim(("rmqadmin [OPTION...] COMMAND [OPTION...]",))),
            section("DESCRIPTION", Prose(_DESCRIPTION)),
            section("OPTIONS BEFORE THE COMMAND", _options(root_options())),
            section("OPTIONS OF EVERY COMMAND", _options(shared_options(commands))),
            *(
                section(family.upper(), terms([(entry.name, entry.summary) for entry in entries]))
                for family, entries in registry.FAMILIES.items()
            ),
            section("FORMATS", terms(FORMATS)),
            section("TIMES", Prose(_TIMES)),
            section("EXIT STATUS", terms([(str(code.value), f"{text}.") for code, text in EXIT_MEANINGS.items()])),
            section("ENVIRONMENT", terms(variables)),
        ),
        _SOURCE,
    )


def command_page(command: CommandInfo) -> ManPage:
    entry = command.entry
    own = [option for option in command.options if not option.is_shared]
    more: list[Section] = []
    if own:
        more.append(section("OPTIONS", _options(own)))
    if command.examples:
        more.append(section("EXAMPLES", Verbatim(command.examples)))
    for result in command.results:
        fields = [
            (f"{column.name} ({column.type_name})", column.description + (" (wide)" if column.is_wide else ""))
            for column in columns(result.row_type)
        ]
        more.append(section("ITEMS", Prose((result.__doc__ or "").partition("\n")[0]), terms(fields)))
    required = [f"{option.names[0]} {option.metavar}".strip() for option in own if option.is_required]
    synopsis = ["rmqadmin", entry.name, *(word.metavar for word in command.arguments), *required, "[OPTION...]"]
    about = [Prose(entry.summary), *([Prose(command.text)] if command.text else [])]
    if entry.effect in _CHANGING:
        about.append(Prose(f"Effect: {entry.effect.value}. `--dry-run` shows what it would do."))
    return ManPage(
        page_name(entry),
        (
            section("NAME", Prose(f"{page_name(entry)} - {entry.summary[0].lower()}{entry.summary[1:].rstrip('.')}")),
            section("SYNOPSIS", Verbatim((" ".join(synopsis),))),
            section("DESCRIPTION", *about),
            *more,
            section("SEE ALSO", Prose("`rmqadmin`(1), which has the options of every command.")),
        ),
        _SOURCE,
    )


def _options(options: Sequence[OptionInfo]) -> Terms:
    return terms([
        (f"{', '.join(option.names)}{' ' + option.metavar if option.metavar else ''}",
         option.help + (" Required." if option.is_required else ""))
        for option in options
    ])  # fmt: skip


SECTION = "1"
_INDENT = 7
_TERM_INDENT = 14

_CODE = re.compile(r"`([^`]+)`")
_ROFF = {
    "\\": r"\(rs",
    "-": r"\-",
    "'": r"\(aq",
    "`": r"\(ga",
    "^": r"\(ha",
    "~": r"\(ti",
    '"': r"\(dq",
}


class Prose(msgspec.Struct, frozen=True):
    """A paragraph."""

    text: str


class Terms(msgspec.Struct, frozen=True):
    """Terms with their meanings."""

    of: tuple[tuple[str, str], ...]


class Verbatim(msgspec.Struct, frozen=True):
    """Lines that are not wrapped."""

    lines: tuple[str, ...]


Part = Prose | Terms | Verbatim


class Section(msgspec.Struct, frozen=True):
    title: str
    parts: tuple[Part, ...]


class ManPage(msgspec.Struct, frozen=True):
    """``name`` is the file's name, without its section."""

    name: str
    sections: tuple[Section, ...]
    source: str

    @property
    def file_name(self) -> str:
        return f"{self.name}.{SECTION}"

    def roff(self) -> str:
        lines = [f'.TH "{_escaped(self.name.upper())}" {SECTION} "" "{_escaped(self.source)}" "rmqadmin"']
        for section in self.sections:
            lines.append(f'.SH "{_escaped(section.title)}"')
            for at, part in enumerate(section.parts):
                roff = _roff_of(part)
                lines += roff if at else [line for line in roff if line != ".PP"]  # a heading begins a paragraph
        return "\n".join(lines) + "\n"

    def text(self, width: int) -> Iterator[str]:
        """The page section by section, in lines of at most ``width``, except for those that are not wrapped."""
        for at, section in enumerate(self.sections):
            parts = "\n\n".join(_text_of(part, width) for part in section.parts)
            yield f"{chr(10) if at else ''}{section.title}\n{parts}\n"


def section(title: str, *parts: Part) -> Section:
    return Section(title, parts)


def terms(pairs: Sequence[tuple[str, str]]) -> Terms:
    return Terms(tuple(pairs))


def _roff_of(part: Part) -> list[str]:
    match part:
        case Prose(text):
            return [".PP", _line(text)]
        case Verbatim(lines):
            return [".PP", ".RS 4", ".nf", *(_guarded(_escaped(line)) for line in lines), ".fi", ".RE"]
        case Terms(of):
            return [line for term, meaning in of for line in (".TP", rf"\fB{_escaped(term)}\fR", _line(meaning))]


def _line(text: str) -> str:
    """A paragraph on one line. Parts with an odd number are in backticks."""
    parts = _CODE.split(text)
    return _guarded("".join(rf"\fB{_escaped(part)}\fR" if at % 2 else _escaped(part) for at, part in enumerate(parts)))


def _escaped(text: str) -> str:
    """The text with characters outside ASCII written by number, so that no encoding must be guessed."""
    return "".join(_ROFF.get(char) or (char if char.isascii() else rf"\[u{ord(char):04X}]") for char in text)


def _guarded(line: str) -> str:
    """The line, protected: otherwise one that begins with a dot is a macro, and an empty one a warning."""
    return line if line and line[0] != "." else rf"\&{line}"


def _text_of(part: Part, width: int) -> str:
    match part:
        case Prose(text):
            return _filled(text, _INDENT, width)
        case Verbatim(lines):
            return "\n".join(" " * (_INDENT + 4) + line for line in lines)
        case Terms(of):
            return "\n".join(f"{' ' * _INDENT}{term}\n{_filled(meaning, _TERM_INDENT, width)}" for term, meaning in of)


def _filled(text: str, indent: int, width: int) -> str:
    margin = " " * indent
    return textwrap.fill(
        text.replace("`", ""), max(width, indent + 20), initial_indent=margin, subsequent_indent=margin,
        break_on_hyphens=False,
    )  # fmt: skip
