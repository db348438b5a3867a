"""Commands meant by the words of other programs: list-topics, brokers."""

from __future__ import annotations

from rmqadmin.cli import registry

LIKENESS = 0.75
"""How alike a word and the command that it may be a slip of must be: list-topics and deleteTopic are not."""

NOUNS = {"broker": "clusterList", "cluster": "clusterList", "node": "clusterList", "message": "msg", "queue": "topic"}
VERBS = {
    "list": ("ls",), "show": ("ls", "show"), "get": ("ls", "get"), "remove": ("delete", "rm"), "rm": ("delete", "rm"),
    "del": ("delete", "rm"), "delete": ("delete", "rm"), "drop": ("delete", "rm"), "add": ("create", "add"),
    "create": ("create", "add"), "new": ("create", "add"), "read": ("cat",), "publish": ("send",),
    "produce": ("send",), "consume": ("cat",), "info": ("describe", "show"),
}  # fmt: skip
"""What people call the verbs of our nouns: the first of these that the noun has."""

UNLISTED = {
    "consumer": "consumerStatus", "getconsumerstatus": "consumerStatus", "decodemessageid": "msg get",
    "resetoffsetbytimeold": "resetOffset",
}  # fmt: skip
"""Commands whose classes Apache ships and mqadmin does not list, by what to call instead."""


def verb_of(noun: str, word: str) -> str | None:
    """The verb of ``noun`` that ``word`` means."""
    has = [entry.name.partition(" ")[2] for entry in registry.group_members(noun)]
    return next((verb for verb in (word, *VERBS.get(word, ())) if verb in has), None)


def meant_command(name: str) -> str | None:
    """The command, or the noun, that a word before any noun means; None for one that is merely spelled wrong."""
    if name.lower() in UNLISTED:
        return UNLISTED[name.lower()]
    words = name.lower().replace("_", "-").split("-")
    same = registry.find("".join(words))
    if same is not None:
        return same.name
    for word in reversed(words):
        singular = word.removesuffix("s")
        noun = NOUNS.get(singular, singular)
        if singular in NOUNS and registry.find(noun) is not None:  # a command, which has no verbs
            return noun
        if noun in registry.NOUN_SUMMARIES:
            verb = next((found for other in words if (found := verb_of(noun, other))), None)
            return f"{noun} {verb}" if verb else noun
    return None
