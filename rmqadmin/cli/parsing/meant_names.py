"""Suggests the name that was meant, when a command found nothing under the name it was given."""

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rmqadmin.cli import registry
from rmqadmin.cli.call import Call
from rmqadmin.cli.options.common_options import value_of
from rmqadmin.cli.output import diagnostics
from rmqadmin.cli.shells.names_cache import KIND_OF_VALUE, remembered
from rmqadmin.core.exit_codes import ExitCode
from rmqadmin.core.names import did_you_mean
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError, RocketMQError
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic, retry_topic

Given = tuple[str, str]
"""A kind of name, and a name given as one."""


def given_names(parameters: Iterable[inspect.Parameter], values: Mapping[str, Any]) -> list[Given]:
    """The names that a command line gives."""
    found: list[Given] = []
    for parameter in parameters:
        kind, value = KIND_OF_VALUE.get(value_of(parameter)), values.get(parameter.name)
        names = value if isinstance(value, list | tuple) else [value]
        found += [(kind, name.strip()) for name in names if kind is not None and isinstance(name, str)]
    return found


def _configured_groups(call: Call) -> list[str]:
    """The groups that brokers know by name, as far as they answer; many have no topic of their own."""
    found: list[str] = []
    with suppress(RocketMQError):
        for broker in call.admin.cluster_info().broker_addr_table.values():
            if broker.master_addr is not None:
                found += call.admin.all_groups(broker.master_addr).subscription_group_table
    return found


def advise(error: RocketMQError, call: Call, given: Sequence[Given]) -> None:
    """Puts a similar name before the hint of an error that says that one of the ``given`` names does not exist. Topics
    are asked from the servers, and groups derived from the topics that brokers make for them; other names are those
    that earlier commands saw. Says so if a server is of another kind than the one that was needed, and if another name
    server knows the name."""
    if not call.asks_servers:
        return
    if isinstance(error, RefusedError) and error.hint is None and error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        from rmqadmin.core.servers.meant_brokers import kind_of_server

        error.hint = kind_of_server(call.admin, error)
    if diagnostics.exit_code(error) != ExitCode.NOT_FOUND or not given:
        return
    from rmqadmin.core.servers.meant_brokers import known_elsewhere

    names = {each for kind, name in given for each in (name, *([retry_topic(name)] if kind == "group" else []))}
    error.hint = known_elsewhere(call.admin, names) or error.hint
    topics: list[str] = []
    with suppress(RocketMQError):
        topics = call.admin.topic_list()
    of_groups = [name.removeprefix(RETRY_PREFIX).removeprefix(DLQ_PREFIX) for name in topics if name.startswith("%")]
    if any(kind == "group" for kind, _ in given):
        of_groups += _configured_groups(call)
    live = {"topic": topics, "group": of_groups}
    for kind, name in given:
        if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", str(error)):
            continue  # something else is missing, such as a user, or a cluster whose name has this one in it
        if kind == "topic" and is_system_topic(name):
            continue  # nobody mistypes these, or means them: they are defaults of options
        known = {*live.get(kind, ()), *remembered(call.admin.namesrv_addrs, kind)}
        usual = sorted(each for each in known if not is_system_topic(each))
        meant = None if name in known else did_you_mean(name, usual)
        if meant is not None:
            said = diagnostics.hint(error) or ""
            error.hint = said if meant in said else f"{meant} {said}".rstrip()
            return


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


def meant_command(name: str, *behind: str) -> str | None:
    """The command, or the noun, that a word before any noun means, perhaps with those ``behind`` it, as in ``describe
    topic X``; None for one that is merely spelled wrong."""
    if name.lower() in UNLISTED:
        return UNLISTED[name.lower()]
    words = name.lower().replace("_", "-").split("-")
    same = registry.find("".join(words))
    if same is not None:
        return same.name
    words += map(str.lower, behind)
    for word in reversed(words):
        singular = word.removesuffix("s")
        noun = NOUNS.get(singular, singular)
        if singular in NOUNS and registry.find(noun) is not None:  # a command, which has no verbs
            return noun
        if noun in registry.NOUN_SUMMARIES:
            verb = next((found for other in words if (found := verb_of(noun, other))), None)
            return f"{noun} {verb}" if verb else noun
    return None
