"""The command line: a Typer application whose commands are built when they are invoked.

Typer parses and prints help. What it cannot do is added here, each in one place: mqadmin's spellings
(``mqadmin_argv``), names in any case, the options that all commands share (``options``), and the steps around a
command: ask, render, exit status. Rich is never imported for help or errors (70 ms): ``rich_markup_mode`` is None.
"""

from __future__ import annotations

import inspect
import itertools
import os
import sys
import typing
from collections.abc import Callable, Collection, Sequence
from copy import copy
from functools import cached_property
from types import UnionType
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from rmqadmin import diagnostics, output, registry
from rmqadmin.call import Call
from rmqadmin.core.contexts.permission import ChangeRefusedError
from rmqadmin.core.results import Result
from rmqadmin.exit_codes import ExitCode
from rmqadmin.invocation import JSON_FORMATS, Invocation
from rmqadmin.mqadmin_argv import Normalised, OptionSpec, UnknownOptionError, normalise
from rmqadmin.options.command_options import (
    IMPLIED_VALUES,
    INSTEAD_OF_CLUSTER,
    MQADMIN_OPTIONS,
    OUTPUT_SHORT,
    cluster_option,
    group_of,
    options_for,
    parameters_of,
    secret_options,
    spellings_of,
)
from rmqadmin.options.common_options import CommonOptions, color_of
from rmqadmin.options.context_words import ContextName
from rmqadmin.output import Color, Format
from rmqadmin.registry import Effect, Entry
from rmqadmin.version import PIPE_CLOSED
from rmqproto.errors import DamageError, NotFoundError, RocketMQError, UsageError

if typing.TYPE_CHECKING:
    from rmqadmin.core.audit.trail import Arguments
    from rmqadmin.meant_names import Given
    from rmqadmin.picked_fields import PickedFields

_HELP = {"help_option_names": ["-h", "--help"]}
_ONLY_HELP = [[name] for name in _HELP["help_option_names"]]
EXAMPLES = "Examples:"
NAME_WIDTH_MAX = 40
"""The list of commands puts a longer name on a line of its own."""
ALIASES = {"--namesrvAddr": ("nameserverAddr",), "--limit": ("max-count",)}
"""Other long names of an option, without dashes: mqadmin's RocksDB commands have their own name for the name servers,
and ``--limit`` was first called ``--max-count``."""
_JSON_SPELLINGS = frozenset(f"--output={format}" for format in JSON_FORMATS)
_TYPER_SETTINGS: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
}


def invocation_of(ctx: Any) -> Invocation:
    found = ctx.find_object(Invocation)
    assert isinstance(found, Invocation)
    return found


class PartlyFailedError(RocketMQError):
    """What could be done was done and shown. This error is about the rest."""


class DefectError(RocketMQError):
    """An unexpected error."""


class LazyGroup(TyperGroup):
    """Commands from the registry. ``noun`` is that of a noun group; empty at the top."""

    noun = ""

    @cached_property
    def _built(self) -> dict[str, Any]:
        """Commands already built, by name. A shell uses one group for all its command lines."""
        return {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if self.noun and not args:  # a question, not an error, like `rmqadmin` alone
            args = ["--help"]
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            option = getattr(error, "option_name", None)
            if option is None:
                raise
            raise self._misplaced(option, args) from None

    def _misplaced(self, option: str, args: Sequence[str]) -> UsageError:
        """The error for a command's option written before the command, as some other programs allow."""
        said = [f"{self.noun} {word}".strip() for word in args]
        said += [f"{one} {other}" for one, other in itertools.pairwise(said)]
        called = next((entry.name for name in said if (entry := registry.find(name)) is not None), "COMMAND")
        return UsageError(
            f"there is no option {option} before the command",
            hint=f"Options of a command follow its name: {diagnostics.PROGRAM} {called} {option} …",
        )

    def list_commands(self, ctx: Any) -> list[str]:
        if self.noun:
            return [entry.name.partition(" ")[2] for entry in registry.group_members(self.noun)]
        return registry.top_level_names()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        name = cmd_name.lower()
        if name not in self._built:
            entry = registry.find(f"{self.noun} {name}".strip())
            if entry is not None:
                self._built[name] = build_command(entry)
            elif not self.noun and registry.group_members(name):
                self._built[name] = build_noun_group(name)
        return self._built.get(name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] == "help":  # mqadmin's way to ask for help
            if len(args) == 1:
                sys.stdout.write(ctx.get_help() + "\n")
                raise typer.Exit(0)
            args = [*args[1:], "--help"]
        if args[1:] in _ONLY_HELP:
            self._show_recorded_help(ctx, args[0])
        command = self.get_command(ctx, args[0])
        if command is None:
            if not self.noun:  # the options before the command are parsed, but _root has not been called yet
                invocation_of(ctx).choose(ctx.params.get("format"))
            raise self._unknown(ctx, args[0])
        return command.name.removeprefix(f"{self.noun} "), command, args[1:]

    def _show_recorded_help(self, ctx: Any, name: str) -> None:
        """Shows the command's recorded help, if any, without loading the command, and ends the program."""
        from rmqadmin.manual.recorded_helps import recorded_help

        entry = registry.find(f"{self.noun} {name}".strip())
        text = recorded_help(entry.name, ctx.make_formatter()) if entry is not None else None
        if text is not None:
            sys.stdout.write(text + "\n")
            raise typer.Exit(0)

    def _unknown(self, ctx: Any, name: str) -> UsageError:
        from rmqadmin.core.near_names import near_name  # only for mistyped names

        near = near_name(name, self.list_commands(ctx))
        entry = registry.find(f"{self.noun} {near}".strip()) if near else None
        called = f"{diagnostics.PROGRAM} {self.noun}".strip()
        advice = f"Did you mean {entry.name}?" if entry else f"`{called} --help` lists the commands."
        advice = registry.DROPPED.get(name.lower(), advice) if not self.noun else advice
        return UsageError(f"there is no command {f'{self.noun} {name}'.strip()!r}", hint=advice)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Summaries come from the registry: building every command for its help would take half a second."""
        families = {"Commands": registry.group_members(self.noun)} if self.noun else registry.FAMILIES
        for family, entries in families.items():
            with formatter.section(family):
                formatter.write_dl([(entry.name, entry.summary) for entry in entries], col_max=NAME_WIDTH_MAX)


class RegistryCommand(TyperCommand):
    """A command that puts its arguments into canonical spelling before Typer sees them."""

    entry: Entry
    cluster_option: str | None
    """The option that the context's cluster is a default for, if any."""
    secret_options: frozenset[str]
    """Options whose values are never written down."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        invocation = invocation_of(ctx)
        invocation.command = self.entry.name
        if _asks_for_json(args):
            invocation.as_json = True
        self._check_fields_named(args)
        if any("--jsonpath" in param.opts for param in self.params):
            args = jsonpath_by_its_name(args)
        try:
            found = normalise(args, option_specs(self), keeps_quotes=not self.entry.is_mqadmin)
        except UnknownOptionError as error:
            raise self._with_place(ctx, error) from None
        self._check_numbers(found.options)
        self._check_meant_format(found.options)
        if "--help" not in found.seen:
            if self.entry.effect is not Effect.SCREEN:
                self._answer_schema(found.options, invocation)
            self._take_cluster(found, invocation)
            self._check_required(found.seen, found.words)
        words = found.words
        if words and self.entry.is_mqadmin:  # mqadmin ignores them silently, and scripts may rely on that
            if sys.stderr.isatty():
                diagnostics.notice(f"ignored, because it belongs to no option: {' '.join(words)}")
            words = []
        return super().parse_args(ctx, [*found.options, *(["--", *words] if words else [])])

    def _with_place(self, ctx: Any, error: UnknownOptionError) -> UnknownOptionError:
        """Adds where the option belongs, if it must stand before the command. Other programs also take such options
        after it."""
        name, has_value, _ = error.token.partition("=")
        for param in ctx.find_root().command.params:
            if name in param.opts:
                written = error.token if has_value or param.is_flag else f"{name} {param.metavar or 'VALUE'}"
                error.hint = f"It goes before the command: {diagnostics.PROGRAM} {written} {self.entry.name} …"
        return error

    def _check_numbers(self, options: Sequence[str]) -> None:
        """UsageError for ``nan`` and ``inf``: ``float`` accepts them, Typer's ranges do not refuse ``nan``, and neither
        makes sense as a count or a time."""
        fractions = {param.opts[-1] for param in self.params if param.type.name.startswith("float")}
        for name, _, value in (option.partition("=") for option in options):
            if name in fractions and value.strip().lstrip("+-").lower() in ("nan", "inf", "infinity"):
                raise UsageError(f"{name} {value} is not a finite number")

    def _check_meant_format(self, options: Sequence[str]) -> None:
        """UsageError if ``-o`` is mqadmin's own option here but its value is a format."""
        for param in self.params:
            value = next((o.partition("=")[2] for o in options if o.startswith(f"{param.opts[-1]}=")), "")
            if OUTPUT_SHORT in param.opts and param.name != "output" and value.lower() in set(Format):
                raise UsageError(
                    f"{OUTPUT_SHORT} of {self.entry.name} is {param.opts[-1]}, not the format",
                    hint=f"Write --output {value}, or `rmqadmin -o {value} {self.entry.name} …`.",
                )

    def _answer_schema(self, options: Sequence[str], invocation: Invocation) -> None:
        """Answers ``--output schema`` before required options are checked, because it needs none."""
        said = dict(option.split("=", 1) for option in options if option.startswith(("--output=", "--json=", "--jq=")))
        common = CommonOptions(output=said.get("--output"), json_fields=said.get("--json"), jq=said.get("--jq"))
        format = common.format(invocation.format_option)
        invocation.as_json = format in JSON_FORMATS
        if format is Format.SCHEMA:
            sys.stdout.write(output.schema(result_types(self.entry)))
            raise typer.Exit(0)

    def _check_fields_named(self, args: Sequence[str]) -> None:
        """UsageError that lists the fields, for ``--json`` without any."""
        asked = [at for at, word in enumerate(args) if word == "--json"]
        if asked and all(at + 1 == len(args) or args[at + 1].startswith("-") for at in asked):
            from rmqadmin.picked_fields import fields_hint

            hint = fields_hint(result_types(self.entry))
            raise UsageError("--json needs names of fields, separated by commas", hint=hint)

    def _take_cluster(self, found: Normalised, invocation: Invocation) -> None:
        """Takes the cluster from the settings if the command line names neither a cluster nor a broker."""
        if self.cluster_option is None or found.seen & {self.cluster_option, *INSTEAD_OF_CLUSTER}:
            return
        said = [option.partition("=")[2] for option in found.options if option.startswith("--context=")]
        settings = invocation.filled(CommonOptions(context=said[0] if said else None)).settings()
        cluster = settings.setting("cluster").value
        if cluster is not None:
            found.seen.add(self.cluster_option)
            found.options.append(f"{self.cluster_option}={cluster}")

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Shows a required word as it is. Typer puts it in braces, which elsewhere mean a choice."""
        pieces: list[str] = super().collect_usage_pieces(ctx)
        return [piece[1:-1] if piece.startswith("{") and "|" not in piece else piece for piece in pieces]

    def _check_required(self, seen: set[str], words: Sequence[str]) -> None:
        """UsageError that names all missing options at once, as mqadmin names them. If one option is missing and one
        word is left over, the hint puts them together."""
        missing = [
            "/".join(param.opts)
            for param in self.params
            if param.param_type_name == "option" and param.required and param.opts[-1] not in seen
        ]
        if missing:
            plural = "s" if len(missing) > 1 else ""
            hint = f"`rmqadmin {self.entry.name} --help` shows the options."
            if len(missing) == len(words) == 1:
                hint = f"Is it {missing[0].partition('/')[0]} {words[0]}? {hint}"
            raise UsageError(f"Missing required option{plural}: {', '.join(missing)}", hint=hint)


def _asks_for_json(args: Sequence[str]) -> bool:
    """Whether a command line asks for JSON, even if it does not parse: its error is then shown as JSON."""
    if any(word.partition("=")[0] == "--json" for word in args):
        return True
    joined = [f"{'--output' if name == OUTPUT_SHORT else name}={value}" for name, value in itertools.pairwise(args)]
    return bool(_JSON_SPELLINGS & {*args, *joined})


def jsonpath_by_its_name(args: Sequence[str]) -> list[str]:
    """Turns ``--json`` into ``--jsonpath``, its later name, if the value begins with a dollar. No field name does."""
    found = list(args)
    for at, word in enumerate(args):
        if word.startswith("--json=$"):
            found[at] = word.replace("--json", "--jsonpath", 1)
        elif word == "--json" and at + 1 < len(args) and args[at + 1].startswith("$"):
            found[at] = "--jsonpath"
    return found


def option_specs(command: Any) -> list[OptionSpec]:
    """The options of a Typer command, for ``mqadmin_argv``. The canonical spelling is the last one declared."""
    shared = {name for parameter in options_for(command.entry) for name in spellings_of(parameter)}
    specs = [OptionSpec("--help", ("h",), ("help",), takes_value=False)]
    for param in command.params:
        if param.param_type_name != "option":
            continue
        canonical = param.opts[-1]
        specs.append(
            OptionSpec(
                canonical,
                tuple(name[1:] for name in param.opts if not name.startswith("--")),
                (*(name[2:] for name in param.opts if name.startswith("--")), *ALIASES.get(canonical, ())),
                takes_value=not param.is_flag,
                implied_value=IMPLIED_VALUES.get(canonical),
                ours=is_ours(command.entry, canonical, shared) or len(param.opts) == 1,
                repeats=param.multiple,
            )
        )
        specs += [OptionSpec(name, (), (name[2:],), takes_value=False, ours=True) for name in param.secondary_opts]
    return specs


def is_ours(entry: Entry, canonical: str, shared: Collection[str]) -> bool:
    """Whether an option with a short name is ours rather than mqadmin's."""
    return not entry.is_mqadmin or (canonical in shared and canonical not in MQADMIN_OPTIONS)


def load_function(entry: Entry) -> Callable[..., Result]:
    """Imports the command's module and returns its function."""
    from importlib import import_module

    function: Callable[..., Result] = getattr(import_module(entry.module), entry.function)
    return function


def result_types(entry: Entry) -> list[type[Result]]:
    """The result types of a command, from its return annotation. Empty for a command that takes over the terminal."""
    annotation = typing.get_type_hints(load_function(entry))["return"]
    if entry.effect is Effect.SCREEN:
        return []
    return list(typing.get_args(annotation)) if isinstance(annotation, UnionType) else [annotation]


def declared_parameters(function: Callable[..., Result]) -> list[inspect.Parameter]:
    """The parameters of a command's function, without the Call."""
    return list(inspect.signature(function, eval_str=True).parameters.values())[1:]


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
        common = CommonOptions(**{parameter.name: values.pop(parameter.name) for parameter in shared})
        arguments = values.copy()
        for name, group in groups.items():
            values[name] = group(**{option: values.pop(option) for option in group.__struct_fields__})
        return run_command(
            entry,
            lambda call: function(call, **values),
            common,
            invocation_of(ctx),
            lambda: _arguments(own, arguments),
            lambda: _names(own, arguments),
        )

    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [context, *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own), *shared]
    invoke.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    invoke.__annotations__ = {}
    app = typer.Typer(**_TYPER_SETTINGS)
    app.command(entry.name, cls=RegistryCommand, help=help_text(entry, function), context_settings=_HELP)(invoke)
    command = typing.cast(RegistryCommand, typer.main.get_command(app))
    command.entry = entry
    command.cluster_option = cluster_option(own)
    command.secret_options = secret_options([*own, *shared])
    return command


def _arguments(own: Sequence[inspect.Parameter], values: dict[str, Any]) -> Arguments:
    from rmqadmin.told_arguments import told_arguments  # only for commands that change something

    return told_arguments(own, values)


def _names(own: Sequence[inspect.Parameter], values: dict[str, Any]) -> list[Given]:
    from rmqadmin.meant_names import given_names  # only for commands that found nothing

    return given_names(own, values)


def build_noun_group(noun: str) -> Any:
    group = type("NounGroup", (LazyGroup,), {"noun": noun})
    app = typer.Typer(cls=group, name=noun, help=f"Commands about {noun}.", **_TYPER_SETTINGS)
    app.callback()(lambda: None)
    return typer.main.get_command(app)


def help_text(entry: Entry, function: Callable[..., Any]) -> str:
    """The summary and the function's docstring; ``\\b`` keeps Typer from joining the lines of the examples."""
    body = inspect.getdoc(function) or ""
    return f"{entry.summary}\n\n{body}".replace(EXAMPLES, f"\b\n{EXAMPLES}").strip()


def run_command(
    entry: Entry,
    ask: Callable[[Call], Result],
    common: CommonOptions,
    invocation: Invocation,
    arguments: Callable[[], Arguments],
    names: Callable[[], list[Given]],
) -> int:
    """Runs the command and shows its result; the exit status, or an error. ``names``: the topics, groups and servers
    that the command line names."""
    common = invocation.filled(common)
    format = common.format(invocation.format_option)
    picked = picked_fields(entry, common)
    color = color_of(invocation.color)
    interval_s = common.watch_s or common.interval_s
    if common.until is not None and interval_s is None:
        raise UsageError("--until needs --watch")
    call = Call(entry.name, common, format, color, invocation, arguments)
    result: Result | None = None
    try:
        if entry.effect is Effect.SCREEN:
            return int(typing.cast(int | None, ask(call)) or ExitCode.OK)
        if interval_s is None:
            result = _asked(ask, call)
            _show(result, entry, format, color, invocation, picked)
        else:
            from rmqadmin.watch import parse_until, watch

            until = parse_until(common.until) if common.until is not None else None
            result = watch(
                lambda: _asked(ask, call), entry.name, format, color, interval_s, until, picked, call.answers_problem
            )
        call.end_trail(result)
    except BrokenPipeError as error:
        call.end_trail(result, error)
        # The reader of our output went away, as `head` does. Without this, the interpreter would complain again at
        # exit.
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        raise typer.Exit(PIPE_CLOSED) from None
    except BaseException as error:
        call.end_trail(result, error)
        if isinstance(error, RocketMQError):
            from rmqadmin.meant_names import advise

            advise(error, call, names())
        raise
    finally:
        call.close()
    status = result.exit_status()
    if status is not None:
        return status
    remark, problem, damage = result.remark(), result.problem() or call.answers_problem(), result.damage()
    if remark is not None:
        diagnostics.notice(remark)
    if problem is not None:
        raise PartlyFailedError(problem)
    if damage is not None:
        raise DamageError(damage)
    return ExitCode.OK


def _asked(ask: Callable[[Call], Result], call: Call) -> Result:
    """The answer. PartlyFailedError if something was not found but some brokers did not answer: they may have it."""
    call.forget_answers()
    try:
        return ask(call)
    except NotFoundError as error:
        problem = call.answers_problem()
        if problem is None:
            raise
        raise PartlyFailedError(f"{error}, as far as is known: {problem}") from None


def picked_fields(entry: Entry, common: CommonOptions) -> PickedFields | None:
    """The fields to show; None without ``--json``. UsageError before any server is asked."""
    if common.json_fields is None:
        return None
    from rmqadmin.picked_fields import pick_fields  # only for `--json`

    return pick_fields(common.json_fields, common.jq, result_types(entry))


def _show(
    result: Result, entry: Entry, format: Format, color: Color, invocation: Invocation, picked: PickedFields | None
) -> None:
    try:
        output.write(result, entry.name, format, color, with_pager=invocation.with_pager, picked=picked)
    except (RocketMQError, BrokenPipeError, KeyboardInterrupt) as error:
        said = None if isinstance(error, UsageError) else result.stopped_by(error)
        if said is not None:
            diagnostics.notice(said)
        raise


# --- the program -----------------------------------------------------------------------------------------------------


def _print_version(wanted: bool) -> None:
    if wanted:
        from rmqadmin.version import print_version

        raise typer.Exit(print_version())


def _root(
    ctx: typer.Context,
    format: Annotated[
        str | None,
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
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """Every mqadmin command, and what mqadmin lacks, for clusters of Apache RocketMQ and of rmqserver.

    Commands and options are mqadmin's own, in any case and spelling that mqadmin takes. `rmqadmin COMMAND --help` shows
    a command's options and examples.
    """
    invocation = invocation_of(ctx)
    invocation.choose(format)
    invocation.context_option = context
    invocation.color = invocation.color if color is Color.AUTO else color
    invocation.debug, invocation.with_pager = invocation.debug or debug, invocation.with_pager and not no_pager
    invocation.is_quiet = invocation.is_quiet or quiet
    diagnostics.be_quiet(invocation.is_quiet)
    if ctx.invoked_subcommand is None:
        sys.stdout.write(ctx.get_help() + "\n")


def build_app() -> Any:
    """The whole command tree. Commands are built when they are asked for."""
    app = typer.Typer(cls=LazyGroup, context_settings=_HELP, invoke_without_command=True, **_TYPER_SETTINGS)
    # Typer evaluates text annotations four times, which takes 2 ms.
    _root.__annotations__ = typing.get_type_hints(_root, include_extras=True)
    app.callback()(_root)
    return typer.main.get_command(app)


def run(argv: Sequence[str], before: Invocation | None = None) -> int:
    """Runs one command line; the exit status. ``before``: what a shell has set for all its lines."""
    invocation = Invocation() if before is None else copy(before)
    session, is_quiet = invocation.session, invocation.is_quiet
    diagnostics.be_quiet(is_quiet)
    try:
        app = build_app() if session is None else session.app(build_app)
        code = app.main(list(map(as_utf8, argv)), prog_name=diagnostics.PROGRAM, standalone_mode=False, obj=invocation)
        return int(code or ExitCode.OK)
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except Exception as error:
        if invocation.debug:
            raise
        return told(error, invocation)
    finally:
        diagnostics.be_quiet(is_quiet)


def as_utf8(word: str) -> str:
    """A word of the command line read as UTF-8 in any locale: names and bodies are UTF-8."""
    return os.fsencode(word).decode("utf-8", "surrogateescape") if not word.isascii() else word


def told(error: Exception, invocation: Invocation) -> int:
    """Reports the error that ended a command line; the exit status."""
    as_json = _settings_say_json() if invocation.as_json is None else invocation.as_json
    status = _unknown_state(_mapped(error), as_json=as_json) if _is_check(invocation) else None
    return diagnostics.report(_mapped(error), command=invocation.command, as_json=as_json, exit_status=status)


def _is_check(invocation: Invocation) -> bool:
    entry = registry.find(invocation.command or "")
    return entry is not None and entry.effect is Effect.CHECK


def _unknown_state(error: Exception, *, as_json: bool) -> int:
    """The status of a check that could not be made; says so to the monitoring system on standard output."""
    from rmqadmin.core.health.plugin_text import PluginState, plugin_line

    if not as_json:
        sys.stdout.write(plugin_line(PluginState.UNKNOWN, str(error)) + "\n")
    return PluginState.UNKNOWN


def _settings_say_json() -> bool:
    """Whether the settings ask for JSON, for an error that comes before the command knows its format. A broken file
    counts as no."""
    try:
        return str(CommonOptions().settings().setting("output").value).lower() in JSON_FORMATS
    except RocketMQError:
        return False


def _mapped(error: Exception) -> Exception:
    """Any error as one of ours. Typer's are recognised by a method, because their classes move between its releases."""
    describe = getattr(error, "format_message", None)
    if describe is not None:
        called = getattr(getattr(error, "ctx", None), "command_path", None)
        return UsageError(describe(), hint=f"`{called} --help` shows its options and arguments." if called else None)
    if isinstance(error, RocketMQError | ChangeRefusedError):
        return error
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        return UsageError("a word of the command line holds bytes that are not UTF-8")
    if isinstance(error, OSError):  # mostly a full disk; errors that the code can foresee are refused where they arise
        return RocketMQError(": ".join(str(part) for part in (error.filename, error.strerror or error) if part))
    return DefectError(
        f"{type(error).__name__}: {error}", hint="This is a defect; --debug before the command shows where."
    )
