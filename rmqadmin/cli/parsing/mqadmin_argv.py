"""Turns mqadmin's ways of writing options into the one spelling that Typer is given: ``--name=value``.

mqadmin parses with commons-cli (``DefaultParser`` of 1.5), so scripts write ``-t X``, ``-tX``, ``-topic X``, ``--topic
X``, ``--topic=X`` and any unambiguous prefix, ``--top X``. Negative numbers are values. Our own options never make a
prefix of mqadmin's ambiguous.
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from rmqadmin.core.names import did_you_mean
from rmqproto.errors import UsageError

_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_LONG_PREFIX_LENGTH_MIN = 2


LONG_LIKENESS = 0.75
"""How alike an unknown option and the one that it may be a slip of must be: --file and --sized are not."""

MEANT = {
    "from": ("since",), "after": ("since",), "start": ("since",), "begin": ("since",), "before": ("until",),
    "end": ("until",),
    "count": ("limit",), "m": ("limit",), "max": ("limit",), "max-messages": ("limit",), "lines": ("limit", "tail"),
    "head": ("limit",), "last": ("tail",), "body": ("grep",),
    "filter": ("where", "sql92", "grep"), "tag": ("tags", "subExpression"),
    "format": ("output",), "pretty": ("output",), "out": ("output",),
    "server": ("namesrvAddr",), "servers": ("namesrvAddr",), "bootstrap-server": ("namesrvAddr",),
    "namesrv": ("namesrvAddr",), "broker": ("brokerAddr",), "cluster": ("clusterName",),
    "force": ("yes",), "assume-yes": ("yes",), "check": ("dry-run",), "dryrun": ("dry-run",), "simulate": ("dry-run",),
    "interval": ("watch",), "refresh": ("watch",), "queues": ("readQueueNums",), "partitions": ("readQueueNums",),
    "queue": ("readQueueNums",), "permission": ("perm",), "group-name": ("groupName", "group"),
}  # fmt: skip
"""What people mean by options of other programs: the first of these that the command has."""


class UnknownOptionError(UsageError):
    """``token`` is the word as written, possibly with a value."""

    def __init__(self, token: str, *, hint: str | None):
        super().__init__(f"Unrecognized option: {token}", hint=hint)
        self.token = token


class MissingValueError(UsageError):
    """``option`` is the canonical spelling of the option that stands without its value."""

    def __init__(self, option: str):
        super().__init__(f"Missing argument for option: {option.lstrip('-')}")
        self.option = option


class OptionSpec(msgspec.Struct, frozen=True):
    """One option of one command. ``short_names`` and ``long_names`` are without dashes.

    ``canonical`` is the spelling handed on. ``implied_value``: what the option means without a value (``--watch``); it
    takes the next word only if that is a number, or a duration. ``ours``: not mqadmin's, so it comes second when
    prefixes are matched; nearly all of mqadmin's have a short name. ``repeats``: every occurrence counts.
    """

    canonical: str
    short_names: tuple[str, ...]
    long_names: tuple[str, ...]
    takes_value: bool
    implied_value: str | None = None
    ours: bool = False
    repeats: bool = False


class Normalised(msgspec.Struct):
    """``options`` are canonical; ``words`` belong to no option. ``before_end``: those of them that no ``--`` precedes,
    so that a person may have meant them as options."""

    options: list[str] = []
    words: list[str] = []
    before_end: list[str] = []
    seen: set[str] = set()
    """Canonical spellings of the options that were given."""
    left_out: list[str] = []
    """Second occurrences with another value, as ``--topic=B``: the first one counts, as in mqadmin."""


def check_misread(words: Sequence[str], *, are_texts: bool = False) -> None:
    """UsageError if a word begins with a character that a person takes for a minus: without it the command would ask
    another cluster than was typed, or change something else. ``are_texts``: they may be bodies."""
    if all(word.isascii() for word in words):
        return
    from rmqproto.misread_words import misread_word  # only for words beyond ASCII

    said = misread_word(words, is_text=are_texts)
    if said is not None:
        raise UsageError(
            f"{said}: nothing was done",
            hint="Type the option again with -. A word that is meant so stands behind --.",
        )


def normalise(args: Sequence[str], specs: Sequence[OptionSpec], *, keeps_quotes: bool = False) -> Normalised:
    """Normalises a command line. UsageError, in mqadmin's words, for an option that is unknown, ambiguous or lacks its
    value. ``keeps_quotes``: quotes are part of a value, for commands that mqadmin does not have."""
    return _Parser(specs, keeps_quotes=keeps_quotes).parse(list(args))


class _Parser:
    def __init__(self, specs: Sequence[OptionSpec], *, keeps_quotes: bool):
        self.specs = specs
        self.keeps_quotes = keeps_quotes
        self.short = {name: spec for spec in specs for name in spec.short_names}
        self.long = {name: spec for spec in specs for name in spec.long_names}
        self.found = Normalised()

    def parse(self, args: list[str]) -> Normalised:
        waiting = args[::-1]
        while waiting:
            token = waiting.pop()
            if token == "--":
                self.found.words += waiting[::-1]
                break
            if not token.startswith("-") or token == "-":
                self.found.words.append(token)
                self.found.before_end.append(token)
            elif token.startswith("--"):
                self.long_option(token, waiting)
            else:
                self.short_or_long_option(token, waiting)
        return self.found

    def long_option(self, token: str, waiting: list[str]) -> None:
        name, equals, value = token.lstrip("-").partition("=")
        spec = self.match_long(name, token)
        if spec is None:
            raise self.unknown(token)
        self.take(spec, value if equals else None, waiting)

    def short_or_long_option(self, token: str, waiting: list[str]) -> None:
        """Reads a token with one dash: ``-t X``, ``-t=X``, ``-topic X``, ``-topic=X``, ``-tX`` and flags run together,
        in the order in which commons-cli tries them."""
        text = token[1:]
        name, equals, value = text.partition("=")
        spec = self.short.get(name) or (self.match_long(name, token) if len(name) > 1 else None)
        if spec is not None:
            self.take(spec, value if equals else None, waiting)
            return
        glued = self.long_prefix(text)
        if glued is not None and self.long[glued].takes_value:
            self.take(self.long[glued], _glued(token, len(glued) + 1), waiting)
            return
        self.run_together(token, waiting)

    def run_together(self, token: str, waiting: list[str]) -> None:
        for at, letter in enumerate(token[1:], start=2):
            spec = self.short.get(letter)
            if spec is None:
                raise self.unknown(token)
            if spec.takes_value:
                self.take(spec, _glued(token, at) or None, waiting)
                return
            self.take(spec, None, waiting)

    def take(self, spec: OptionSpec, value: str | None, waiting: list[str]) -> None:
        if not spec.takes_value:
            if value is not None:
                raise UsageError(f"the option {spec.canonical} takes no value, but {value!r} was given")
        elif value is None:
            if waiting and self.is_value(waiting[-1], spec):
                value = waiting.pop() if self.keeps_quotes else _unquoted(waiting.pop())
            elif spec.implied_value is None:
                raise MissingValueError(spec.canonical)
            else:
                value = spec.implied_value
        if spec.canonical in self.found.seen and not spec.repeats:
            if not spec.ours:
                again = spec.canonical if value is None else f"{spec.canonical}={value}"
                if again not in self.found.options:
                    self.found.left_out.append(again)
                return
            self.found.options = [said for said in self.found.options if said.partition("=")[0] != spec.canonical]
        self.found.seen.add(spec.canonical)
        self.found.options.append(spec.canonical if value is None else f"{spec.canonical}={value}")

    def is_value(self, token: str, spec: OptionSpec) -> bool:
        if token == "--":  # ends the options, wherever it stands
            return False
        if spec.implied_value is not None:
            return re.fullmatch(f"({_NUMBER})(ms|[smh])?", token) is not None
        return not self.is_option(token) or re.fullmatch(_NUMBER, token) is not None

    def is_option(self, token: str) -> bool:
        """Whether commons-cli would read a token as an option where a value could stand."""
        if not token.startswith("-") or len(token) == 1:
            return False
        name, has_two = token.lstrip("-").partition("=")[0], token.startswith("--")
        if name and (has_two or len(name) > 1) and any(long.startswith(name) for long in self.long):
            return True
        if has_two:
            return False
        return self.long_prefix(name) is not None or name in self.short or name[:1] in self.short

    def match_long(self, name: str, token: str) -> OptionSpec | None:
        """The option with this long name, or the only one with this prefix; mqadmin's come before ours."""
        if name in self.long:
            return self.long[name]
        glued_to = self.short.get(token[1:2])
        for ours in (False, True):
            if ours and glued_to is not None and glued_to.takes_value and not glued_to.ours:
                return None  # -no is mqadmin's -n with a value, and no prefix of our --no-header
            matching = {
                long for long, spec in self.long.items() if name and long.startswith(name) and spec.ours is ours
            }
            if len({self.long[long].canonical for long in matching}) > 1:
                could = ", ".join(f"--{long}" for long in sorted(matching))
                raise UsageError(f"Ambiguous option: {token}  (could be: {could})")
            if matching:
                return self.long[matching.pop()]
        return None

    def long_prefix(self, text: str) -> str | None:
        """The longest long name that ``text`` begins with, as in ``-topicX``."""
        for end in range(len(text) - 1, _LONG_PREFIX_LENGTH_MIN - 1, -1):
            if text[:end] in self.long:
                return text[:end]
        return None

    def unknown(self, token: str) -> UnknownOptionError:
        name = token.lstrip("-").partition("=")[0]
        meant = next((each for each in MEANT.get(name.lower(), ()) if each in self.long), None)
        hint = f"Did you mean --{meant}?" if meant else did_you_mean(name, self.long, LONG_LIKENESS)
        if hint is not None and meant is None:
            hint = hint.replace("mean ", "mean --")
        said = [pasted_hint(token), hint if meant or len(name) > 1 else None]
        return UnknownOptionError(token, hint=" ".join(filter(None, said)) or None)


def _glued(token: str, at: int) -> str:
    """The value in an option's own word. UsageError if a blank that a shell does not know stands before it."""
    value = token[at:]
    if not value[:1].isascii():
        from rmqproto.misread_words import character_name, is_invisible  # only for words beyond ASCII

        if is_invisible(value[0]):
            what = f"{character_name(value[0])} stands between {token[:at]} and its value: nothing was done"
            raise UsageError(what, hint=f"Type a blank: {token[:at]} {value[1:]}")
    return value


def pasted_hint(token: str) -> str | None:
    """Names a character that looks like a minus or a blank and is none."""
    if token.isascii():
        return None
    from rmqproto.misread_words import character_name, pasted_character  # only for words beyond ASCII

    character = pasted_character(token)
    return None if character is None else f"It has {character_name(character)} where - or a blank was meant."


def _unquoted(value: str) -> str:
    """The value without one pair of double quotes around it, as commons-cli does with a value in a word of its own."""
    inner = value[1:-1]
    return inner if len(value) > 1 and value[0] == value[-1] == '"' and '"' not in inner else value


def add_value_hint(error: MissingValueError, ctx: Any) -> MissingValueError:
    """The error with a hint from the option of that name among those of the context's command."""
    for param in ctx.command.params:
        if error.option in param.opts:
            error.hint = f"{param.opts[0]} {param.make_metavar(ctx)}: {param.help or ''}"
    return error
