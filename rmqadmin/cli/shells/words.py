"""Which words can follow which, for the completion of every shell and of ``rmqadmin shell``."""

from __future__ import annotations

from rmqadmin.cli import registry
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.cli.parsing.command_tree import CommandInfo, OptionInfo
from rmqadmin.cli.shells.names_cache import KIND_OF_VALUE

HELP = OptionInfo(("-h", "--help"), "", "Show the help.", False, (), True, Value.CHOICE)

CONTEXT_NAMES = "context"
"""Names that are not remembered: those of the context files."""

_NAMES = {**KIND_OF_VALUE, Value.CONTEXT: CONTEXT_NAMES}

PROPERTY_NAMES = "property"
KV_KEYS = "kv_key"
FIELD_NAMES = "field"
_ASKED = {Value.PROPERTY: PROPERTY_NAMES, Value.KV_KEY: KV_KEYS, Value.FIELDS: FIELD_NAMES}
"""Names that nothing remembers: only ``rmqadmin shell``, which asks servers, can offer them."""


def live_kind(value: Value) -> str | None:
    """The kind of names that a value is."""
    return _NAMES.get(value) or _ASKED.get(value)


def word_choices(command: CommandInfo, at: int = 0) -> tuple[str | None, list[str]]:
    """What a positional word after a command can be: the kind of names, and other words. ``at`` counts positional words
    from 0. What has no capital letters in the help means itself: ``bash|zsh|fish``."""
    if at >= len(command.arguments):
        return None, []
    argument = command.arguments[at]
    name, *others = argument.metavar.strip("[].").split("|")
    kind = _NAMES.get(argument.value)
    return kind, [word for word in (others if kind is not None else [name, *others]) if not word.isupper()]


def nouns() -> list[str]:
    return [name for name in registry.top_level_names() if registry.group_members(name)]


def summaries(noun: str = "") -> list[tuple[str, str]]:
    """The words that can follow ``rmqadmin`` or ``rmqadmin noun``, with short descriptions."""
    if noun:
        return [(entry.name.partition(" ")[2], entry.summary) for entry in registry.group_members(noun)]
    found = {entry.name.partition(" ")[0]: entry.summary for entry in registry.ENTRIES}
    return [(name, registry.NOUN_SUMMARIES.get(name, summary)) for name, summary in found.items()]
