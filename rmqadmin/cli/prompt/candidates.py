"""What can stand at the cursor: commands, options, values, names. Which names an option takes, its marker says
(``options.common_options``). ``rmqadmin shell`` asks the live cluster for names, other shells take those that commands
have seen."""

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache

import msgspec

from rmqadmin.cli import registry
from rmqadmin.cli.options.common_options import CommonOptions, Value
from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.output.asked_columns import field_names
from rmqadmin.cli.parsing.command_tree import CommandInfo, OptionInfo, describe, root_options
from rmqadmin.cli.prompt.command_lines import LAST_WORDS, PROGRAM_MARK
from rmqadmin.cli.prompt.line import TypedWord, parse_line, typed
from rmqadmin.cli.shells.names_cache import KIND_OF_VALUE, KINDS, remembered
from rmqadmin.core.contexts.context_store import ContextStore
from rmqadmin.core.names import is_made_by_brokers, topics_named_after
from rmqclient.addresses import parse_namesrvs
from rmqproto.errors import RocketMQError
from rmqproto.names import is_system_group

HELP = OptionInfo(("-h", "--help"), "", "Show the help.", False, (), True, Value.CHOICE)

CONTEXT_NAMES = "context"
"""Names that are not remembered: those of the context files."""

_NAMES = {**KIND_OF_VALUE, Value.CONTEXT: CONTEXT_NAMES}

PROPERTY_NAMES = "property"
KV_KEYS = "kv_key"
FIELD_NAMES = "field"
_ASKED = {Value.PROPERTY: PROPERTY_NAMES, Value.KV_KEY: KV_KEYS, Value.FIELDS: FIELD_NAMES}
"""Names that nothing remembers: only ``rmqadmin shell``, which asks servers, can offer them."""


def word_choices(command: CommandInfo, at: int = 0) -> tuple[str | None, list[str]]:
    """What a positional word after a command can be: the kind of names, and other words. ``at`` counts positional words
    from 0. What has no capital letters in the help means itself: ``bash|zsh|fish``."""
    if at >= len(command.arguments):
        return None, []
    argument = command.arguments[at]
    name, *others = argument.metavar.strip("[].").split("|")
    kind = _NAMES.get(argument.value)
    return kind, [word for word in (others if kind is not None else [name, *others]) if not word.isupper()]


def summaries(noun: str = "") -> list[tuple[str, str]]:
    """The words that can follow ``rmqadmin`` or ``rmqadmin noun``, with short descriptions."""
    if noun:
        return [(entry.name.partition(" ")[2], entry.summary) for entry in registry.group_members(noun)]
    found = {entry.name.partition(" ")[0]: entry.summary for entry in registry.ENTRIES}
    return [(name, registry.NOUN_SUMMARIES.get(name, summary)) for name, summary in found.items()]


HELP_WORD = "help"
_MAY_STAND_ALONE = "--watch"


class Candidate(msgspec.Struct, frozen=True):
    """``text`` is typed, followed by ``behind``. ``told`` is shown beside it."""

    text: str
    told: str = ""
    behind: str = " "


class Offer(msgspec.Struct, frozen=True):
    """What can replace the end of the line, from ``start`` on."""

    start: int
    candidates: Sequence[Candidate] = ()


class LineSoFar(msgspec.Struct):
    """What is typed of a command so far. ``values`` are those of its options and of options before it, by each option's
    last name in the help. ``waiting`` is the option whose value comes next. ``args`` are the words after the
    command."""

    noun: str = ""
    command: CommandInfo | None = None
    values: dict[str, str] = {}
    args: list[str] = []
    argument_count: int = 0
    waiting: OptionInfo | None = None


AskNames = Callable[[str, LineSoFar], Iterable[str]]
"""Returns the names of a kind, for a line."""

_describe = cache(describe)
_root = cache(root_options)


def offer(before_cursor: str, ask: AskNames) -> Offer:
    """What can follow ``before_cursor``. ``ask`` is called if names can."""
    parsed = parse_line(before_cursor)
    words = parsed.words
    is_ours = parsed.piped_to is None and not parsed.is_in_comment
    if not is_ours or before_cursor.lstrip().startswith(PROGRAM_MARK):
        return Offer(len(before_cursor))
    is_begun = bool(words) and (bool(words[-1].open_quote) or not before_cursor[-1:].isspace())
    current = words[-1] if is_begun else TypedWord("", len(before_cursor))
    done = [word.text for word in (words[:-1] if is_begun else words)]
    if done[:1] == [diagnostics.PROGRAM]:
        done = done[1:]
    return _offer(read_words(done), current, ask)


def offer_line(line: str, ask: AskNames) -> list[Candidate]:
    """What can follow ``line`` of another shell, each in place of the line's whole last word."""
    found = offer(line, ask)
    last_word = len(line) - len(line.rsplit(maxsplit=1)[-1]) if line and not line[-1].isspace() else len(line)
    begun = line[last_word : found.start]
    return [
        msgspec.structs.replace(each, text=begun + each.text)
        for each in found.candidates
        if each.text not in LAST_WORDS
    ]


def read_words(words: list[str]) -> LineSoFar:
    """The meaning of whole words. The last one may be waiting for a value."""
    found = LineSoFar()
    for at, word in enumerate(words):
        if found.waiting is not None:
            found.values[found.waiting.names[-1]], found.waiting = word, None
            continue
        if word.startswith("-"):
            name, equals, value = word.partition("=")
            option = _option(found, name)
            if option is not None and option.takes_value and not equals and option.names[-1] != _MAY_STAND_ALONE:
                found.waiting = option
            elif option is not None:
                found.values[option.names[-1]] = value
        elif found.command is not None:
            found.argument_count += 1
        elif word.lower() != HELP_WORD or found.noun:
            found.args = words[at + 1 :]
            entry = registry.find(f"{found.noun} {word}".strip())
            if entry is not None:
                found.command = _describe(entry)
            elif not found.noun and registry.group_members(word):
                found.noun = word.lower()
    return found


def _options(line: LineSoFar) -> list[OptionInfo]:
    if line.command is not None:
        return [*line.command.options, HELP]
    return [] if line.noun else [*_root(), HELP]


def _option(line: LineSoFar, name: str) -> OptionInfo | None:
    spellings = {name, f"--{name.lstrip('-')}"}  # mqadmin also takes long names with one dash
    return next((option for option in _options(line) if not spellings.isdisjoint(option.names)), None)


def _offer(line: LineSoFar, current: TypedWord, ask: AskNames) -> Offer:
    text, start = current.text, current.start
    if line.waiting is not None:
        return _values(line, line.waiting, text, start, current, ask)
    if text.startswith("-"):
        name, equals, begun = text.partition("=")
        option = _option(line, name) if equals else None
        if option is not None and option.takes_value:
            return _values(line, option, begun, start + len(name) + 1, current, ask)
        given = line.values.keys()
        return Offer(start, [_of_option(each, text) for each in _options(line) if _can_follow(each, text, given)])
    if line.command is None:
        return Offer(start, _commands(line, text))
    kind, others = word_choices(line.command, line.argument_count)
    arguments = line.command.arguments
    if line.argument_count < len(arguments) and arguments[line.argument_count].value is Value.FILE:
        return Offer(start, _files(text, current))
    found = [*named(kind, line, ask, text, current), *_beginning(others, text, current)]
    if found or text or arguments:
        return Offer(start, found)
    return Offer(start, [_of_option(each, "") for each in _options(line) if _can_follow(each, "", line.values.keys())])


def _can_follow(option: OptionInfo, text: str, given: Iterable[str]) -> bool:
    return option.names[-1] not in given and any(name.lower().startswith(text.lower()) for name in option.names)


def _of_option(option: OptionInfo, text: str) -> Candidate:
    """An option by its longest name, or by the short one that the user began."""
    fitting = [name for name in option.names if name.lower().startswith(text.lower())]
    long = [name for name in fitting if name.startswith("--") and not name.startswith("--no-")]
    written = (long or fitting)[-1]
    return Candidate(written, f"{option.metavar} {option.help}".strip())


def _commands(line: LineSoFar, text: str) -> list[Candidate]:
    offered = summaries(line.noun)
    if not line.noun:
        offered = [*offered, (HELP_WORD, "Of a command."), *((word, "Leave the shell.") for word in LAST_WORDS)]
    return [Candidate(name, summary) for name, summary in offered if name.lower().startswith(text.lower())]


def _values(line: LineSoFar, option: OptionInfo, text: str, start: int, current: TypedWord, ask: AskNames) -> Offer:
    if option.value is Value.FILE:
        return Offer(start, _files(text, current))
    if option.choices:
        return Offer(start, _beginning(option.choices, text, current))
    kind = _NAMES.get(option.value) or _ASKED.get(option.value)
    if kind == FIELD_NAMES:
        before, comma, begun = text.rpartition(",")
        known = field_names(line.command.results) if line.command is not None else []
        fields = [msgspec.structs.replace(each, behind="") for each in _beginning(known, begun, current)]
        return Offer(start + len(before + comma), fields)
    return Offer(start, named(kind, line, ask, text, current))


def _files(begun: str, current: TypedWord) -> list[Candidate]:
    folder, name = os.path.split(begun)
    try:
        found = sorted(os.scandir(folder or "."), key=lambda each: each.name)
    except OSError:
        return []
    return [
        Candidate(
            typed(os.path.join(folder, each.name) + is_folder * "/", current.open_quote),
            behind="" if is_folder else " ",
        )
        for each in found
        if each.name.startswith(name) and each.name.startswith(".") == name.startswith(".")
        for is_folder in [each.is_dir()]
    ]


def named(kind: str | None, line: LineSoFar, ask: AskNames, begun: str, current: TypedWord) -> list[Candidate]:
    """Names of a kind. The system's own names are offered only if the user has begun one of them and no other."""
    if kind is None:
        return []
    own: list[str] = []
    systems: list[str] = []
    servers = topics_named_after(ask("broker_name", line), ask("cluster", line)) if kind == "topic" else set()
    for name in ask(kind, line):
        is_systems = is_system_group(name) if kind == "group" else kind == "topic" and is_made_by_brokers(name, servers)
        (systems if is_systems else own).append(name)
    return _beginning(own, begun, current) or (_beginning(systems, begun, current) if begun else [])


def _beginning(texts: Iterable[str], begun: str, current: TypedWord) -> list[Candidate]:
    """The texts that begin so. Names with % are the system's (retry topics and dead letters, one per group); they are
    offered only if the user has begun with %."""
    fitting = (text for text in texts if text.isprintable() and text.lower().startswith(begun.lower()))
    return [Candidate(typed(text, current.open_quote)) for text in fitting if begun.startswith("%") or text[:1] != "%"]


def remembered_names(kind: str, line: LineSoFar) -> list[str]:
    """The names of a kind in the cluster that the line will ask; none if that cannot be told."""
    if kind == CONTEXT_NAMES:
        return ContextStore().names()
    if kind not in KINDS:
        return []
    options = CommonOptions(namesrv_addr=line.values.get("--namesrvAddr"), context=line.values.get("--context"))
    try:
        return remembered(parse_namesrvs(options.settings().setting("namesrv_addr").value), kind)
    except RocketMQError:
        return []
