"""The command tree as data, from which completions and the manual are generated. It imports every command's module,
which the program itself never does."""

import inspect
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec

from rmqadmin.cli import program, registry
from rmqadmin.cli.options.common_options import Value, value_of
from rmqadmin.cli.output.output_format import Format
from rmqadmin.cli.parsing.command_building import build_command, help_parts
from rmqadmin.cli.registry import Entry
from rmqadmin.core.results import Result


class OptionInfo(msgspec.Struct, frozen=True):
    """``names`` are as written, with dashes. ``metavar`` is empty for a flag; ``choices`` is empty if any value will
    do."""

    names: tuple[str, ...]
    metavar: str
    help: str
    is_required: bool
    choices: tuple[str, ...]
    is_shared: bool
    value: Value

    @property
    def takes_value(self) -> bool:
        return bool(self.metavar)


class ArgumentInfo(msgspec.Struct, frozen=True):
    """A word that belongs to no option. ``metavar`` stands in brackets if it may be left out."""

    metavar: str
    value: Value


class CommandInfo(msgspec.Struct, frozen=True):
    """``text`` is the help without its examples."""

    entry: Entry
    text: str
    examples: tuple[str, ...]
    options: tuple[OptionInfo, ...]
    arguments: tuple[ArgumentInfo, ...]
    results: tuple[type[Result], ...]


@cache
def all_commands() -> tuple[CommandInfo, ...]:
    """All commands. Built once, because it takes most of a second."""
    return tuple(describe(entry) for entry in registry.ENTRIES)


def describe(entry: Entry) -> CommandInfo:
    command = build_command(entry)
    text, examples = help_parts(entry.load())
    shared = {*command.general_options}
    return CommandInfo(
        entry=entry,
        text=" ".join(text.split()),
        examples=tuple(examples),
        options=tuple(
            _option(param, shared, command.values[param.name])
            for param in command.params
            if param.param_type_name == "option"
        ),
        arguments=tuple(
            ArgumentInfo(str(param.metavar or param.name), command.values[param.name])
            for param in command.params
            if param.param_type_name == "argument"
        ),
        results=tuple(entry.result_types()),
    )


def shared_options(commands: Iterable[CommandInfo]) -> list[OptionInfo]:
    """The options that all commands share, each once. Each is listed with the most names it has in any command, since
    some names are taken in some commands."""
    shared: dict[str, OptionInfo] = {}
    for option in (option for command in commands for option in command.options if option.is_shared):
        name = option.names[-1]
        shared[name] = max(option, shared.get(name, option), key=lambda one: len(one.names))
    return list(shared.values())


def root_options() -> list[OptionInfo]:
    """The options before the command."""
    params = program.build_app().params  # evaluates the annotations, which the markers are part of
    values = {parameter.name: value_of(parameter) for parameter in inspect.signature(program.root).parameters.values()}
    return [_option(param, set(), values[param.name]) for param in params]


def _option(param: Any, shared: set[str], value: Value) -> OptionInfo:
    choices = tuple(str(getattr(choice, "value", choice)) for choice in getattr(param.type, "choices", ()))
    kind = "N" if "int" in param.type.name else "TEXT"
    metavar = "" if param.is_flag else param.metavar or "|".join(choices) or kind
    if value is Value.FORMAT:
        choices = tuple(Format)
    return OptionInfo(
        names=(*param.opts, *param.secondary_opts),
        metavar=metavar,
        help=param.help or "",
        is_required=param.required,
        choices=choices,
        is_shared=param.opts[-1] in shared,
        value=value,
    )
