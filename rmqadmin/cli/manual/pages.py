"""The content of the manual pages: one for the program, one for each command, all from the command tree."""

from __future__ import annotations

from collections.abc import Sequence

from rmqadmin.cli import registry
from rmqadmin.cli.manual.man_page import ManPage, Prose, Section, Terms, Verbatim, section, terms
from rmqadmin.cli.parsing.command_tree import CommandInfo, OptionInfo, root_options, shared_options
from rmqadmin.cli.registry import Effect, Entry
from rmqadmin.core.contexts.settings import KINDS
from rmqadmin.core.exit_codes import EXIT_MEANINGS
from rmqadmin.core.results import Result, columns
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
    more += [_fields(result) for result in command.results]
    about = [Prose(entry.summary), *([Prose(command.text)] if command.text else [])]
    if entry.effect in _CHANGING:
        about.append(Prose(f"Effect: {entry.effect.value}. `--dry-run` shows what it would do."))
    return ManPage(
        page_name(entry),
        (
            section("NAME", Prose(f"{page_name(entry)} - {entry.summary[0].lower()}{entry.summary[1:].rstrip('.')}")),
            section("SYNOPSIS", Verbatim((_synopsis(command, own),))),
            section("DESCRIPTION", *about),
            *more,
            section("SEE ALSO", Prose("`rmqadmin`(1), which has the options of every command.")),
        ),
        _SOURCE,
    )


def _synopsis(command: CommandInfo, own: Sequence[OptionInfo]) -> str:
    required = [f"{option.names[0]} {option.metavar}".strip() for option in own if option.is_required]
    return " ".join(
        ["rmqadmin", command.entry.name, *(word.metavar for word in command.arguments), *required, "[OPTION...]"]
    )


def _options(options: Sequence[OptionInfo]) -> Terms:
    return terms([
        (f"{', '.join(option.names)}{' ' + option.metavar if option.metavar else ''}",
         option.help + (" Required." if option.is_required else ""))
        for option in options
    ])  # fmt: skip


def _fields(result: type[Result]) -> Section:
    when = (result.__doc__ or "").partition("\n")[0]
    fields = [
        (f"{column.name} ({column.type_name})", column.description + (" (wide)" if column.is_wide else ""))
        for column in columns(result.row_type)
    ]
    return section("ITEMS", Prose(when), terms(fields))
