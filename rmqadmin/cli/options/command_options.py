"""The options that commands share, declared once: which fields of ``CommonOptions`` a command gets after its own
options, and the types of values that mqadmin spells in its own way.

Options that we add have only long names, because mqadmin's commands use the short letters for other things. The
exceptions are ``-ak`` and ``-sk``, which mqadmin's users know, and ``-o`` wherever it is free.
"""

import functools
import inspect
import typing
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer
from typer.models import OptionInfo

from rmqadmin.cli.options.common_options import (
    SERVER_OPTIONS,
    WATCH_INTERVAL_DEFAULT_S,
    CommonOptions,
    OptionGroup,
    Value,
    argument,
    option,
)
from rmqadmin.cli.registry import Effect, Entry
from rmqadmin.core.admin_client import AdminClient
from rmqproto.errors import UsageError
from rmqproto.wire.frames import FRAME_SIZE_MAX_BYTES

OUTPUT_SHORT = "-o"
"""Short for ``--output`` before every command, and after commands that have no ``-o`` of their own."""

IMPLIED_VALUES = {"--watch": f"{WATCH_INTERVAL_DEFAULT_S:g}"}
"""Options that may be given without a value, and the value they then have."""

MQADMIN_OPTIONS = frozenset({"--namesrvAddr", "--interval", "--attributes"})
"""Those of mqadmin's own options that are shared, or have no short name."""


OF_CONTEXT = "without a word from the user, as the context says"
"""Marks an option for the cluster that a command needs if no broker is named."""

OR_THE_ONLY = "or the only one"
"""Marks an option for the cluster that a command needs if no broker is named, where the only one may be meant."""

TheCluster = Annotated[str | None, OF_CONTEXT, OR_THE_ONLY, Value.CLUSTER]
"""What the option for such a cluster takes."""

A_BROKER = "a broker's address or name"
A_BROKER_NAME = "a broker's name or address"
"""Mark options for one broker, of whose two designations the command needs the first."""

LONG = "a whole number of 64 bits"
"""Marks an option for a number that is a Java long in RocketMQ, or of which we have no end. Others are a Java int."""

TEXTS = "texts that may be anything"
"""Marks words of a command that are bodies: such a text may begin with any dash."""

SEVERAL_NAMES = "names joined by commas"
"""Marks an option for one name of a topic or group that also takes several."""

INSTEAD_OF_CLUSTER = frozenset({"--brokerAddr", "--brokerName", "--all-clusters"})
"""Options that replace a marked one."""


class TrueFalse(StrEnum):
    """A boolean with a value, as in mqadmin: ``-o true``."""

    TRUE = "true"
    FALSE = "false"


def as_bool(value: TrueFalse | None) -> bool | None:
    return None if value is None else value is TrueFalse.TRUE


BrokerAddr = Annotated[
    str | None, A_BROKER, Value.BROKER_ADDR, option("-b", "--brokerAddr", "This broker only; or its name.")
]
NamedCluster = Annotated[
    str | None, OF_CONTEXT, Value.CLUSTER, option("-c", "--clusterName", "Every master of this cluster.")
]
ClusterName = Annotated[
    TheCluster, option("-c", "--clusterName", "Every master of this cluster; default: the only one.")
]


class Masters(OptionGroup, frozen=True):
    """One broker, or every master of a cluster."""

    broker_addr: BrokerAddr = None
    cluster_name: ClusterName = None

    def addrs(self, admin: AdminClient) -> list[str]:
        """As of ``targets.masters``."""
        from rmqadmin.core import targets  # 10 ms, which helps do not need

        return targets.masters(admin, self.broker_addr, self.cluster_name)


class Replicas(OptionGroup, frozen=True):
    """One broker, or every broker of a cluster."""

    broker_addr: BrokerAddr = None
    cluster_name: Annotated[
        TheCluster, option("-c", "--clusterName", "Every master and slave of this cluster; default: the only one.")
    ] = None

    def addrs(self, admin: AdminClient) -> list[str]:
        """As of ``targets.replicas``."""
        from rmqadmin.core import targets  # as above

        return targets.replicas(admin, self.broker_addr, self.cluster_name)


EveryMaster = Annotated[TheCluster, option("-c", "--cluster", "Every master of this cluster; default: the only one.")]
AnyCluster = Annotated[TheCluster, option("-c", "--cluster", "Every broker of this cluster; default: the only one.")]
ClusterOnly = Annotated[
    str | None,
    OF_CONTEXT,
    Value.CLUSTER,
    option("-c", "--clusterName", "This cluster only; default: all, or the context's."),
]
AllClusters = Annotated[bool, option("--all-clusters", "Every broker that the name server knows.")]
AskedBroker = Annotated[str | None, A_BROKER, Value.BROKER_ADDR, option("-b", "--brokerAddr", "Ask this broker only.")]
BrokerName = Annotated[str, A_BROKER_NAME, Value.BROKER_NAME, option("-b", "--brokerName", "Broker name.")]
Topic = Annotated[str, Value.TOPIC, option("-t", "--topic", "Topic name.")]
Topics = Annotated[str, SEVERAL_NAMES, Value.TOPIC, option("-t", "--topic", "Topic name, or several joined by commas.")]
TopicOnly = Annotated[str | None, Value.TOPIC, option("-t", "--topic", "This topic only.")]
LmqParent = Annotated[
    str | None, Value.TOPIC, option("-c", "--cluster", "Look up the route of this topic instead (LMQ parent).")
]
ConsumerGroup = Annotated[str, Value.GROUP, option("-g", "--consumerGroup", "Consumer group.")]
Jstack = Annotated[bool, option("-s", "--jstack", "Also show the stacks of the clients' threads.")]
GroupName = Annotated[str, Value.GROUP, option("-g", "--groupName", "Consumer group.")]
Group = Annotated[str, Value.GROUP, option("-g", "--group", "Consumer group.")]
ProbeCount = Annotated[int, option("-a", "--amount", "How many messages to send to each.", min=1)]
ProbeSize = Annotated[
    int, option("-s", "--size", "Size of each message's body.", metavar="BYTES", min=1, max=FRAME_SIZE_MAX_BYTES)
]
ContainerAddr = Annotated[str, Value.BROKER_ADDR, option("-c", "--brokerContainerAddr", "The container's address.")]
PERM_METAVAR = "R|W|RW|NUMBER"
ListFile = Annotated[str, Value.FILE, option("-f", "--filename", "JSON file with a list of objects.")]
Namespace = Annotated[str, Value.NAME, option("-s", "--namespace", "Namespace of the key.")]
Key = Annotated[str, Value.KV_KEY, option("-k", "--key", "The key.")]
Property = Annotated[str, Value.PROPERTY, option("-k", "--key", "Name of the property.")]
PropertyValue = Annotated[str, option("-v", "--value", "Its new value.", metavar="TEXT")]
Replace = Annotated[bool, option("--replace", "Reset whatever is not given to its default, as mqadmin does.")]
ShowAll = Annotated[bool, option("--all", "Show system topics and groups on a terminal too.")]
IgnoredForce = Annotated[TrueFalse | None, option("-f", "--force", "Has no effect, as in mqadmin.")]


Texts = list[str] | None
"""An option that may be repeated."""


def _name_and_value(text: str) -> tuple[str, str] | None:
    name, separator, value = text.partition("=")
    return (name, value) if separator and name else None


def pairs(
    option: str,
    texts: Texts,
    split: Callable[[str], tuple[str, str] | None] = _name_and_value,
    *,
    is_condition: bool = False,
) -> dict[str, str]:
    """The values of a repeated option of the form NAME=VALUE; UsageError for another form. If a name is repeated, the
    last value counts; as conditions, two values exclude each other, and are a UsageError."""
    found: dict[str, str] = {}
    for text in texts or []:
        pair = split(text)
        if pair is None:
            raise UsageError(f"{option} {text} is not of the form NAME=VALUE")
        name, value = pair
        if is_condition and found.get(name, value) != value:
            raise UsageError(f"{option} {name} cannot be both {found[name]!r} and {value!r}")
        found[name] = value
    return found


_OUTPUT = ("output", "json_fields", "jq", "columns", "no_header")
_WATCH = ("watch_s", "until")
_PERMIT = ("unlock", "confirm")
_CHANGE = ("dry_run", "yes", *_PERMIT)
_FIELDS_BY_EFFECT: dict[Effect, tuple[str, ...]] = {
    Effect.LOCAL: _OUTPUT,
    Effect.SETTINGS: _OUTPUT,
    Effect.SCREEN: (*SERVER_OPTIONS, "unlock"),
    Effect.READ: (*SERVER_OPTIONS, *_OUTPUT, *_WATCH),
    Effect.STREAM: (*SERVER_OPTIONS, *_OUTPUT),
    Effect.CHECK: (*SERVER_OPTIONS, *_OUTPUT),
    Effect.READ_OR_CHANGE: (*SERVER_OPTIONS, *_OUTPUT, *_WATCH, *_CHANGE),
    Effect.PROBE: (*SERVER_OPTIONS, *_OUTPUT, *_WATCH, "dry_run", *_PERMIT),
    Effect.CHANGE: (*SERVER_OPTIONS, *_OUTPUT, *_CHANGE),
    Effect.DESTROY: (*SERVER_OPTIONS, *_OUTPUT, *_CHANGE),
}


def options_for(entry: Entry, own: Collection[str] = ()) -> list[inspect.Parameter]:
    """The shared options of a command as parameters of a function, for Typer to read. ``own``: the spellings of the
    command's other options. ``-o`` is short for ``--output`` unless it is among them. If mqadmin has an option that
    ``--json`` is a prefix of, ``--json`` means that one; ``--until`` of a range of times is not that of ``--watch``."""
    names = [*(["interval_s"] if entry.has_interval else []), *_FIELDS_BY_EFFECT[entry.effect]]
    parameters = {parameter.name: parameter for parameter in parameters_of(CommonOptions)}
    if entry.is_mqadmin and any(spelling.startswith("--json") for spelling in own):
        names = [name for name in names if name not in ("json_fields", "jq")]
    if "--until" in own:
        names = [name for name in names if name != "until"]
    if OUTPUT_SHORT not in own:
        output = parameters["output"]
        kind, value, option = typing.get_args(output.annotation)
        short = typer.Option(OUTPUT_SHORT, *spellings_of(output), metavar=option.metavar, help=option.help)
        parameters["output"] = output.replace(annotation=Annotated[kind, value, short])
    return [parameters[name] for name in names]


def spellings_of(parameter: inspect.Parameter) -> tuple[str, ...]:
    """The spellings of an option, without those that negate it. Empty for an argument."""
    option = typing.get_args(parameter.annotation)[-1]
    if not isinstance(option, OptionInfo):
        return ()
    return (str(option.default).partition("/")[0], *(option.param_decls or ()))


@functools.cache  # each command needs the shared ones twice, and their annotations take 3 ms
def parameters_of(group: type[OptionGroup]) -> tuple[inspect.Parameter, ...]:
    """The options of a group as parameters of a function, for Typer to read."""
    annotations: dict[str, Any] = {}
    for part in reversed(group.__mro__):  # ``typing.get_type_hints`` would look at all names again, and takes 2 ms
        annotations |= inspect.get_annotations(part, eval_str=True)
    fields, defaults = group.__struct_fields__, group.__struct_defaults__
    without = (msgspec.NODEFAULT,) * (len(fields) - len(defaults))
    return tuple(
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotations[name])
        for name, default in zip(fields, (*without, *defaults), strict=True)
    )


def group_of(parameter: inspect.Parameter) -> type[OptionGroup] | None:
    """The group that a command's parameter stands for; None for a single option."""
    kind = parameter.annotation
    return kind if isinstance(kind, type) and issubclass(kind, OptionGroup) else None


def marked_options(mark: str, parameters: Iterable[inspect.Parameter]) -> frozenset[str]:
    """The options with a mark in their annotation, by their last spelling."""
    return frozenset(spellings_of(each)[-1] for each in parameters if mark in typing.get_args(each.annotation))


TopicNames = Annotated[list[str], Value.TOPIC, argument("Topic names; also joined by commas.", metavar="TOPIC...")]
GroupNames = Annotated[list[str], Value.GROUP, argument("Consumer groups; also joined by commas.", metavar="GROUP...")]


def topic_names(words: Sequence[str]) -> list[str]:
    """The names in words of which each may hold several, joined by commas: no name has one. Each name once. UsageError
    if there is none."""
    found = [name for word in words for part in word.split(",") if (name := part.strip())]
    if not found:
        raise UsageError("no name is given")
    return list(dict.fromkeys(found))


ParentTopic = Annotated[str, Value.TOPIC, option("-p", "--parentTopic", "The topic that holds the lite topics.")]


ControllerAddr = Annotated[
    str,
    Value.ADDRESSES,
    option("-a", "--controllerAddress", "Any controller of the group; of several, the first that knows the leader."),
]
ControllerAddrs = Annotated[str, Value.ADDRESSES, option("-a", "--controllerAddress", "The controllers.")]
ReplicatedBroker = Annotated[str, A_BROKER_NAME, Value.BROKER_NAME, option("-bn", "--brokerName", "Broker name.")]
OneBrokerName = Annotated[
    str | None, A_BROKER_NAME, Value.BROKER_NAME, option("-b", "--brokerName", "The replicas of this broker name only.")
]
EveryBrokerName = Annotated[
    TheCluster, option("-c", "--clusterName", "Every broker name of this cluster; default: the only one.")
]


ExportFolder = Annotated[
    str | None, Value.FILE, option("-f", "--filePath", "Also write mqadmin's file to this directory.", metavar="DIR")
]
