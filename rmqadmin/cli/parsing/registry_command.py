"""A command before Typer sees its arguments: mqadmin's spellings are made canonical, and what holds for every command
is checked and filled in."""

import itertools
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import msgspec
import typer
from typer.core import TyperCommand

from rmqadmin.cli.invocation import Invocation, invocation_of
from rmqadmin.cli.options.command_options import (
    IMPLIED_VALUES,
    MQADMIN_OPTIONS,
    OUTPUT_SHORT,
    options_for,
    spellings_of,
)
from rmqadmin.cli.options.common_options import Value
from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.output.asked_columns import columns_hint, fields_hint
from rmqadmin.cli.output.output_format import JSON_FORMATS, Format
from rmqadmin.cli.output.rendering import schema
from rmqadmin.cli.parsing.mqadmin_argv import (
    MissingValueError,
    Normalised,
    OptionSpec,
    UnknownOptionError,
    add_value_hint,
    check_misread,
    normalise,
    pasted_hint,
)
from rmqadmin.cli.registry import CHANGING, Effect, Entry
from rmqproto.errors import UsageError
from rmqproto.java.java_numbers import INT_MAX, LONG_MAX, check_range, decimal_number, is_whole

ALIASES = {
    "--namesrvAddr": ("nameserverAddr",),
    "--printMsg": ("print msg",),
    "--printLog": ("print log",),
    "--machineRoom": ("machine room",),
}
"""Other long names of an option, without dashes: mqadmin's RocksDB commands have a name of their own for the name
servers, and some of its names have a blank."""
_WORD_OF_OPTION = {
    **dict.fromkeys(("-t", "--topic"), Value.TOPIC),
    **dict.fromkeys(("-g", "--group", "--groupName", "--consumerGroup"), Value.GROUP),
    **dict.fromkeys(("-u", "--username", "-s", "--subject"), Value.USER),
    **dict.fromkeys(("-i", "--msgId"), Value.ID),
    **dict.fromkeys(("-p", "--body"), Value.TEXT),
    **dict.fromkeys(("-r", "--resources"), Value.RESOURCE),
    **dict.fromkeys(("-a", "--actions"), Value.ACTION),
}
"""What mqadmin's options name, as the arguments of our own commands are called."""
_INSTEAD_OF = {
    "-q": ("--readQueueNums", "Queues are given by -r (to read) and -w (to write)."),
    **dict.fromkeys(("-r", "-w"), ("--queues", "Did you mean --queues?")),
    "-p": ("--password-stdin", "The password is asked for, or read from standard input with --password-stdin."),
    "-s": ("--status", "Did you mean --status?"),
}
"""What to write instead of an option of mqadmin's, in a command that has the option named first."""
_NAMES = frozenset({Value.TOPIC, Value.GROUP, Value.CLUSTER, Value.BROKER_NAME, Value.BROKER_ADDR})
_MAY_BE_EMPTY = frozenset({Value.TEXT, Value.SECRET, Value.FORMAT})
"""Any other value says which server, thing, place or time is meant."""
RANGE_OPTIONS = frozenset({"--since", "--until"})
"""Our names for the two ends of a range of times, wherever a command takes one. Beside an option of mqadmin's they are
names of ours, which make no prefix of its own ambiguous."""
_ALL = "rmqadmin.cli.all"
"""In a Typer context's notes: whether the whole help is asked for."""
_KNOWN_BEST = ("--dry-run", "--yes", "--output", "--watch", "--context")
_KNOWN_SHOWN_MAX = 3
_JSON_SPELLINGS = frozenset(f"--output={format}" for format in JSON_FORMATS)


class RegistryCommand(TyperCommand):
    """A command that puts its arguments into canonical spelling before Typer sees them."""

    entry: Entry
    secret_options: frozenset[str]
    """Options whose values are never written down."""
    values: Mapping[str | None, Value]
    """What the values of its options and words are, by the parameters that they become."""
    long_options: frozenset[str]
    """Options whose numbers may have 64 bits."""
    general_options: frozenset[str]
    """Options that every such command has."""
    takes_texts: bool
    """Whether its words may be bodies."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        invocation = invocation_of(ctx)
        invocation.command = self.entry.name
        if _asks_for_json(args):
            invocation.as_json = True
        if "--help" in args and "--all" in args:
            args = ask_for_all(ctx, args)
        self._check_fields_named(args)
        try:
            found = normalise(args, option_specs(self), keeps_quotes=not self.entry.is_mqadmin)
        except UnknownOptionError as error:
            raise self._with_place(ctx, error) from None
        except MissingValueError as error:
            raise add_value_hint(error, ctx) from None
        if "--help" not in found.seen:
            check_misread(found.before_end, are_texts=self.takes_texts)
            self._check_repeated(found)
            self._check_empty(found.options)
        found.options = self._trimmed(found.options)
        self._check_meant_format(found.options)
        self._check_numbers(found.options)
        if "--help" not in found.seen:
            self._answer_schema(found.options, invocation)
            self._check_required(found.seen, found.words)
        words = found.words
        if words and "--help" not in found.seen:
            if self.entry.is_mqadmin:
                self._leave_out(words, found.seen, args)
                words = []
            else:
                counts = [param.nargs for param in self.params if param.param_type_name == "argument"]
                if min(counts, default=0) >= 0 and len(words) > sum(counts):
                    self._refuse_words(words[sum(counts) :], found.seen, args)
        left: list[str] = super().parse_args(ctx, [*found.options, *(["--", *words] if words else [])])
        self._check_empty_words(ctx)
        return left

    def _check_empty(self, options: Sequence[str]) -> None:
        """UsageError for an option without a value, as ``-c "$CLUSTER"`` where a script has no such variable: something
        else would be meant than was typed."""
        kinds = {param.opts[-1]: self.values.get(param.name) for param in self.params}
        for name, equals, value in (option.partition("=") for option in options):
            if equals and not value.strip() and kinds.get(name, Value.TEXT) not in _MAY_BE_EMPTY:
                raise _empty(name)

    def _check_empty_words(self, ctx: Any) -> None:
        """The same for words."""
        for param in self.params:
            value = ctx.params.get(param.name)
            words = value if isinstance(value, list | tuple) else [value]
            is_word = param.param_type_name == "argument" and self.values[param.name] not in _MAY_BE_EMPTY
            if is_word and any(isinstance(word, str) and not word.strip() for word in words):
                raise _empty(param.make_metavar(ctx).strip("[]."))

    def _check_repeated(self, found: Normalised) -> None:
        """mqadmin takes the first of several values, without a word. UsageError if the command changes something."""
        if not found.left_out:
            return
        again = " ".join(found.left_out)
        several = "`rmqadmin topic describe A B` and `topic delete A B` take several." if "--topic=" in again else None
        if self.entry.effect in CHANGING:
            raise UsageError(
                f"{again}: the option was given before, with another value: nothing was done", hint=several
            )
        diagnostics.notice(
            f"ignored, because the option was given before: {again}" + (f". {several}" if several else "")
        )

    def _leave_out(self, words: Sequence[str], seen: set[str], args: Sequence[str]) -> None:
        """What becomes of words that belong to no option, which mqadmin ignores silently. UsageError if the command
        changes something: without them it may change something else than was meant."""
        if self.entry.effect in CHANGING:
            self._refuse_words(words, seen, args)
        diagnostics.notice(f"ignored, because it belongs to no option: {' '.join(words)}")

    def _refuse_words(self, words: Sequence[str], seen: set[str], args: Sequence[str]) -> NoReturn:
        """UsageError that names the options which a single word may belong to, or the flag that it stands behind in
        ``args``."""
        hint = f"`rmqadmin {self.entry.name} --help` shows the options."
        meant = [
            f"{param.opts[0]} {words[0]}"
            for param in self.params
            if self.values.get(param.name) in _NAMES and param.opts[-1] not in seen | self.general_options
        ]
        behind = [before for before, word in itertools.pairwise(args) if word == words[0] and self._is_flag(before)]
        if behind:
            hint = f"{behind[-1]} takes no value. {hint}"
        elif len(words) == 1 and meant:
            hint = f"Is it {' or '.join(meant)}? {hint}"
        raise UsageError(
            f"{' '.join(words)}: belongs to no option, so nothing was done",
            hint=pasted_hint(" ".join(words)) or hint,
        )

    def _is_flag(self, word: str) -> bool:
        try:
            options = normalise([word], option_specs(self)).options
        except UsageError:  # unknown, or without its value
            return False
        return bool(options) and "=" not in options[-1]

    def _with_place(self, ctx: Any, error: UnknownOptionError) -> UnknownOptionError:
        """Adds where the option belongs, if it must stand before the command. Other programs also take such options
        after it."""
        name, has_value, _ = error.token.partition("=")
        has, instead = _INSTEAD_OF.get(name, ("", ""))
        if any(has in param.opts for param in self.params):
            error.hint = instead
            return error
        for param in ctx.find_root().command.params:
            if name in param.opts:
                written = error.token if has_value or param.is_flag else f"{name} {param.metavar or 'VALUE'}"
                error.hint = f"It goes before the command: {diagnostics.PROGRAM} {written} {self.entry.name} …"
        as_word, as_option = self._as_meant(ctx, name)
        help = f"`{ctx.command_path} --help` shows its options and arguments."
        error.hint = as_word or error.hint or as_option or help
        return error

    def _as_meant(self, ctx: Any, name: str) -> tuple[str | None, str | None]:
        """The hints for an option of mqadmin's commands whose value is a word here, ``msg cat -t X``, and for one whose
        name a single option here may have for it, ``msg import -t X``."""
        wanted = _WORD_OF_OPTION.get(name)
        meant: list[Any] = [
            param for param in self.params if wanted is not None and self.values.get(param.name) is wanted
        ]
        if any(param.param_type_name == "argument" for param in meant):
            words = [param.make_metavar(ctx) for param in self.params if param.param_type_name == "argument"]
            return f"The value of {name} is a word here: {ctx.command_path} {' '.join(words)}", None
        if len(meant) != 1 or wanted not in _NAMES:
            return None, None
        return None, f"Is it {meant[0].opts[0]} {meant[0].make_metavar(ctx)}? {meant[0].help}"

    def _trimmed(self, options: Sequence[str]) -> list[str]:
        """The options with words of a choice without the blanks around them, as mqadmin takes them, and with durations
        (``5s``, ``2m``) as seconds."""
        choices = {param.opts[-1] for param in self.params if param.type.name == "choice"}
        seconds = {param.opts[-1] for param in self.params if self.values.get(param.name) is Value.SECONDS}

        def trimmed(name: str, value: str) -> str:
            if name in choices:
                return value.strip()
            if name not in seconds or not value.strip()[-1:].isalpha():
                return value
            from rmqproto.times import parse_duration  # it compiles patterns

            length_ms = parse_duration(value.strip())
            return value if length_ms is None else f"{length_ms / 1000:g}"

        parts = [option.partition("=") for option in options]
        return [f"{name}{equals}{trimmed(name, value)}" for name, equals, value in parts]

    def _check_numbers(self, options: Sequence[str]) -> None:
        """UsageError for what is no number outside of Python, and for a whole number that RocketMQ's field cannot
        hold."""
        kinds = {param.opts[-1]: param.type.name for param in self.params}
        for name, _, value in (option.partition("=") for option in options):
            kind = kinds.get(name, "")
            if kind.startswith("float") and decimal_number(value) is None:
                raise UsageError(f"{name} {value!r} is not a finite number")
            if kind.startswith("int"):  # Typer's releases call it int or integer
                if not is_whole(value):
                    raise UsageError(f"{name} {value!r} is not a whole number")
                check_range(name, value, LONG_MAX if name in self.long_options else INT_MAX)

    def _check_meant_format(self, options: Sequence[str]) -> None:
        """UsageError if ``-o`` is mqadmin's own option here but its value is a format."""
        for param in self.params:
            value = next((o.partition("=")[2] for o in options if o.startswith(f"{param.opts[-1]}=")), "")
            if OUTPUT_SHORT in param.opts and param.name != "output" and value.lower() in set(Format):
                raise UsageError(
                    f"{OUTPUT_SHORT} of {self.entry.name} is {param.opts[-1]}, not the format",
                    hint=f"Write --output {value}, or `rmqadmin -o {value} {self.entry.name} …`.",
                )

    def _check_fields_named(self, args: Sequence[str]) -> None:
        """UsageError that lists the fields, for ``--json`` without any, and the columns for ``--columns``."""
        for option, hint, what in (("--json", fields_hint, "fields"), ("--columns", columns_hint, "columns")):
            asked = [at for at, word in enumerate(args) if word == option]
            if asked and all(at + 1 == len(args) or args[at + 1].startswith("-") for at in asked):
                needs = f"{option} needs names of {what}, separated by commas"
                raise UsageError(needs, hint=hint(self.entry.result_types()))

    def _answer_schema(self, options: Sequence[str], invocation: Invocation) -> None:
        """``--output schema``, before required options are checked, because it needs none."""
        said = [option.removeprefix("--output=") for option in options if option.startswith("--output=")]
        format = said[-1] if said else invocation.format_option or ""
        if said:
            invocation.as_json = format.lower() in JSON_FORMATS
        if format.lower() == Format.SCHEMA and self.entry.effect is not Effect.SCREEN:
            sys.stdout.write(schema(self.entry.result_types()))
            raise typer.Exit(0)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The command's own options; the general ones in one line, unless all is asked for."""
        general, own, words = list[tuple[str, str]](), list[tuple[str, str]](), list[tuple[str, str]]()
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                is_general = not {*param.opts}.isdisjoint(self.general_options | {"--help"})
                (words if param.param_type_name == "argument" else general if is_general else own).append(record)
        for title, records in (("Arguments", words), ("Options", own)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        if asks_for_all(ctx):
            with formatter.section("Options of every command"):
                formatter.write_dl(general)
            return
        there = [name for name in _KNOWN_BEST if name in self.general_options]
        formatter.write_paragraph()
        formatter.write_text(f"Others, such as {', '.join(there[:_KNOWN_SHOWN_MAX])}: --help --all shows them.")

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


def _empty(name: str) -> UsageError:
    return UsageError(f"{name} has no value: nothing was done", hint="Is a variable of a script not set?")


def ask_for_all(ctx: Any, args: Sequence[str]) -> list[str]:
    """Takes ``--all`` out of a line that asks for help: it asks for the whole help."""
    ctx.meta[_ALL] = "--all" in args
    return [arg for arg in args if arg != "--all"]


def asks_for_all(ctx: Any) -> bool:
    return bool(ctx.meta.get(_ALL))


def _asks_for_json(args: Sequence[str]) -> bool:
    """Whether a command line asks for JSON, even if it does not parse: its error is then shown as JSON."""
    if any(word.partition("=")[0] == "--json" for word in args):
        return True
    joined = [f"{'--output' if name == OUTPUT_SHORT else name}={value}" for name, value in itertools.pairwise(args)]
    return bool(_JSON_SPELLINGS & {*args, *joined})


def option_specs(command: Any) -> list[OptionSpec]:
    """The options of a Typer command, for ``mqadmin_argv``. The canonical spelling is the last one declared."""
    shared = {name for parameter in options_for(command.entry) for name in spellings_of(parameter)}
    all_ours = not command.entry.is_mqadmin
    specs = [OptionSpec("--help", ("h",), ("help",), takes_value=False)]
    for param in command.params:
        if param.param_type_name != "option":
            continue
        canonical = param.opts[-1]
        ours = [name[2:] for name in param.opts if name in RANGE_OPTIONS and name != canonical]
        longs = [name[2:] for name in param.opts if name.startswith("--") and name[2:] not in ours]
        spec = OptionSpec(
            canonical,
            tuple(name[1:] for name in param.opts if not name.startswith("--")),
            (*longs, *ALIASES.get(canonical, ())),
            takes_value=not param.is_flag,
            implied_value=IMPLIED_VALUES.get(canonical),
            ours=all_ours or (canonical not in MQADMIN_OPTIONS and (canonical in shared or len(param.opts) == 1)),
            repeats=param.multiple,
        )
        specs.append(spec)
        specs += [msgspec.structs.replace(spec, short_names=(), long_names=(name,), ours=True) for name in ours]
        specs += [OptionSpec(name, (), (name[2:],), takes_value=False, ours=True) for name in param.secondary_opts]
    return specs
