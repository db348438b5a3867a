"""Makes a Typer command from a command's function: its own options, then those that commands share."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import typer
import typer.main

from rmqadmin.cli.call import Call
from rmqadmin.cli.invocation import invocation_of
from rmqadmin.cli.options.command_options import (
    A_BROKER,
    A_BROKER_NAME,
    INSTEAD_OF_CLUSTER,
    LONG,
    OF_CONTEXT,
    OR_THE_ONLY,
    SEVERAL_NAMES,
    TEXTS,
    group_of,
    marked_options,
    options_for,
    parameters_of,
    spellings_of,
)
from rmqadmin.cli.options.common_options import CommonOptions, Value, value_of
from rmqadmin.cli.parsing.meant_names import given_names
from rmqadmin.cli.parsing.registry_command import RegistryCommand
from rmqadmin.cli.registry import Entry
from rmqproto.errors import UsageError

if TYPE_CHECKING:
    from rmqadmin.core.audit_trail import Arguments


HELP_SETTINGS = {"help_option_names": ["-h", "--help"]}
TYPER_SETTINGS: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
}


def build_command(entry: Entry) -> RegistryCommand:
    """A Typer command made from the command's function: its own options, then the shared ones."""
    function = entry.load()
    declared, (text, examples) = declared_parameters(function), help_parts(function)
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

        def ask(call: Call) -> Any:
            meant = with_meant_targets(call, own, values)
            for name, group in groups.items():
                meant[name] = group(**{option: meant.pop(option) for option in group.__struct_fields__})
            return function(call, **meant)

        return run_command(
            entry,
            ask,
            common,
            invocation_of(ctx),
            lambda: told_arguments(own, values),
            lambda: given_names(own, values),
        )

    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [context, *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own), *shared]
    invoke.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    invoke.__annotations__ = {}
    app = typer.Typer(**TYPER_SETTINGS)
    # After \b, Typer does not join lines.
    help = "\n".join([entry.summary, "", text, "", "\b", "Examples:", *(f"  {line}" for line in examples)])
    app.command(entry.name, cls=RegistryCommand, help=help, context_settings=HELP_SETTINGS)(invoke)
    command = typing.cast(RegistryCommand, typer.main.get_command(app))
    command.entry = entry
    command.secret_options = marked_options(Value.SECRET, [*own, *shared])
    command.values = {parameter.name: value_of(parameter) for parameter in [*own, *shared]}
    for param in command.params:
        kind = command.values.get(param.name or "")
        if param.metavar is None and kind and " " not in kind:
            param.metavar = str(kind)
    command.takes_texts = any(TEXTS in typing.get_args(parameter.annotation) for parameter in own)
    command.long_options = marked_options(LONG, own)
    command.general_options = frozenset(spellings_of(parameter)[-1] for parameter in shared) - {"--interval"}
    return command


def declared_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a command's function, without the Call."""
    return list(inspect.signature(function, eval_str=True).parameters.values())[1:]


def help_parts(function: Callable[..., Any]) -> tuple[str, list[str]]:
    """What a command's docstring says, and its examples, which are the last paragraph."""
    text, _, examples = (inspect.getdoc(function) or "").rpartition("\n\n")
    return text, [line.strip() for line in examples.splitlines()]


def told_arguments(parameters: Iterable[inspect.Parameter], values: Mapping[str, Any]) -> Arguments:
    """The options to write into the log of changes, without those that were not given: names, numbers and choices. Of
    free text there is only a mark that there was one, because it may be a password, a message, a customer's key, or
    anything else. Which it is, ``options.common_options`` says."""
    from rmqadmin.core.audit_trail import HIDDEN, Arguments  # only for commands that change something

    told: dict[str, Any] = {}
    untold: list[str] = []
    for parameter in parameters:
        value = values.get(parameter.name)
        if value is None or value is False or value == []:
            continue
        plain, name = _plain(value), (spellings_of(parameter) or (parameter.name,))[-1]
        if value_of(parameter).is_told:
            told[name] = plain
        else:
            told[name] = HIDDEN
            untold += [str(each) for each in (plain if isinstance(plain, list) else [plain])]
    return Arguments(told, untold)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Enum):
        return value.value
    return value if isinstance(value, str | int | float | bool) else str(value)


def with_meant_targets(call: Call, own: Sequence[inspect.Parameter], values: dict[str, Any]) -> dict[str, Any]:
    """The values of a command's own options, as the command needs them: names without the blanks around them, as
    mqadmin takes them. A cluster that the context says is put into ``values``, as if it had been typed. Errors as of
    ``core.servers.meant_brokers`` and of ``targets.only_cluster``. No server is asked if nothing is left open.
    UsageError for names joined by commas."""
    _require_one_name(call.command, own, values)
    instead = [each for each in own if set(spellings_of(each)) & INSTEAD_OF_CLUSTER]
    is_open = not any(values.get(each.name) for each in instead)
    found = dict(values)
    for parameter in own:
        marks = typing.get_args(parameter.annotation)
        value = values.get(parameter.name)
        if value is None and OF_CONTEXT in marks and is_open:
            value = values[parameter.name] = found[parameter.name] = call.settings.setting("cluster").value
        if isinstance(value, str) and value_of(parameter) in _TRIMMED:
            value = found[parameter.name] = value.strip()
        if isinstance(value, str) and (A_BROKER in marks or A_BROKER_NAME in marks):
            from rmqadmin.core.servers import meant_brokers  # only if a broker is named

            meant = meant_brokers.broker_addr_of if A_BROKER in marks else meant_brokers.broker_name_of
            found[parameter.name] = meant(call.admin, value)
        if value is None and OR_THE_ONLY in marks and is_open:
            from rmqadmin.core.targets import only_cluster

            needed = [name for each in (*instead, parameter) if (name := spellings_of(each)[0]) != "--all-clusters"]
            found[parameter.name] = only_cluster(call.admin.cluster_info(), " or ".join(needed))
    return found


_TRIMMED = frozenset({
    Value.TOPIC, Value.GROUP, Value.CLUSTER, Value.BROKER_ADDR, Value.BROKER_NAME, Value.ADDRESSES, Value.CLIENT,
    Value.ID, Value.USER, Value.SUBJECT, Value.RESOURCE, Value.KV_KEY, Value.PROPERTY,
})  # fmt: skip
"""Names, none of which begins or ends with a blank."""

_FOR_SEVERAL = {
    "deleteTopic": "topic delete",
    "updateTopic": "topic create",
    "topicClusterList": "topic describe",
    "consumerProgress": "group describe",
    "group lag": "group describe",
}
"""Commands that do for several names what these do for one."""


def _require_one_name(command: str, own: Sequence[inspect.Parameter], values: Mapping[str, Any]) -> None:
    """No topic or group has a comma in its name, so that such a name is a list."""
    for parameter in own:
        marks, value = typing.get_args(parameter.annotation), values.get(parameter.name)
        noun = _NOUNS.get(value_of(parameter))
        if not isinstance(value, str) or "," not in value or SEVERAL_NAMES in marks or noun is None:
            continue
        names = [part.strip() for part in value.split(",") if part.strip()]
        several = _FOR_SEVERAL.get(command)
        told = "Run it once for each." if several is None else f"For several: rmqadmin {several} {' '.join(names)}"
        raise UsageError(f"{command} takes one {noun}, and {value!r} is a list", hint=told)


_NOUNS = {Value.TOPIC: "topic", Value.GROUP: "group"}
