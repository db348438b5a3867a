"""Makes a Typer command from a command's function: its own options, then those that commands share."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer
import typer.main

from rmqadmin.cli.invocation import invocation_of
from rmqadmin.cli.options.command_options import (
    LONG,
    TEXTS,
    cluster_option,
    group_of,
    marked_options,
    options_for,
    parameters_of,
    spellings_of,
)
from rmqadmin.cli.options.common_options import CommonOptions
from rmqadmin.cli.options.value_markers import Value, value_of
from rmqadmin.cli.parsing.command_functions import declared_parameters, help_text, load_function
from rmqadmin.cli.parsing.meant_targets import with_meant_targets
from rmqadmin.cli.parsing.registry_command import RegistryCommand
from rmqadmin.cli.registry import Entry

if TYPE_CHECKING:
    from rmqadmin.cli.call import Call
    from rmqadmin.cli.parsing.meant_names import Given
    from rmqadmin.core.audit.trail import Arguments

HELP_SETTINGS = {"help_option_names": ["-h", "--help"]}
TYPER_SETTINGS: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
}


def build_command(entry: Entry) -> RegistryCommand:
    """A Typer command made from the command's function: its own options, then the shared ones."""
    function = load_function(entry)
    declared = declared_parameters(function)
    groups = {parameter.name: group for parameter in declared if (group := group_of(parameter)) is not None}
    own = [
        option
        for parameter in declared
        for option in (parameters_of(groups[parameter.name]) if parameter.name in groups else [parameter])
    ]
    shared = options_for(entry, [spelling for option in own for spelling in spellings_of(option)])

    def invoke(ctx: typer.Context, **values: Any) -> int:
        from rmqadmin.cli.command_run import run_command  # not for helps

        common = CommonOptions(**{parameter.name: values.pop(parameter.name) for parameter in shared})
        arguments = values.copy()
        for name, group in groups.items():
            values[name] = group(**{option: values.pop(option) for option in group.__struct_fields__})

        def ask(call: Call) -> Any:
            return function(call, **with_meant_targets(call, declared, values))

        return run_command(
            entry,
            ask,
            common,
            invocation_of(ctx),
            lambda: _arguments(own, arguments),
            lambda: _names(own, arguments),
        )

    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [context, *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own), *shared]
    invoke.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    invoke.__annotations__ = {}
    app = typer.Typer(**TYPER_SETTINGS)
    help = help_text(entry, function)
    app.command(entry.name, cls=RegistryCommand, help=help, context_settings=HELP_SETTINGS)(invoke)
    command = typing.cast(RegistryCommand, typer.main.get_command(app))
    command.entry = entry
    command.cluster_option = cluster_option(own)
    command.secret_options = marked_options(Value.SECRET, [*own, *shared])
    command.values = {parameter.name: value_of(parameter) for parameter in [*own, *shared]}
    command.takes_texts = any(TEXTS in typing.get_args(parameter.annotation) for parameter in own)
    command.long_options = marked_options(LONG, own)
    command.general_options = frozenset(spellings_of(parameter)[-1] for parameter in shared) - {"--interval"}
    return command


def _arguments(own: Sequence[inspect.Parameter], values: dict[str, Any]) -> Arguments:
    from rmqadmin.cli.told_arguments import told_arguments  # only for commands that change something

    return told_arguments(own, values)


def _names(own: Sequence[inspect.Parameter], values: dict[str, Any]) -> list[Given]:
    from rmqadmin.cli.parsing.meant_names import given_names  # only for commands that found nothing

    return given_names(own, values)
