"""Which commands there are: one line a command, and the module that holds its function.

The table is all that is read to list commands, to complete them and to find one; only the invoked command's module is
imported, because importing all of them costs more than most commands do. A command ``updateTopic`` of module ``topic``
is the function ``update_topic`` in ``rmqadmin/commands/topic.py``; ``"dlq list"`` of module ``dlq`` is ``dlq_list``.
Adding a command is adding a line here and that function.
"""

from __future__ import annotations

import re
from enum import Enum

import msgspec


class Effect(Enum):
    """What a command can do, which decides the options that every such command has."""

    LOCAL = "asks no server"
    READ = "reads"
    READ_OR_CHANGE = "reads; changes with some options"
    CHANGE = "changes"
    SCREEN = "takes the terminal; has no output"
    DESTROY = "deletes, wipes or resets: asks for the name on a terminal"


class Entry(msgspec.Struct, frozen=True):
    """``summary`` is the first line of the help. ``is_mqadmin``: mqadmin 5.5.0 has a command of this name.
    ``has_interval``: one with mqadmin's own ``-i --interval``, which repeats it."""

    name: str
    module: str
    effect: Effect
    summary: str
    is_mqadmin: bool = True
    has_interval: bool = False

    @property
    def function(self) -> str:
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.name)
        return re.sub(r"[ -]", "_", words).lower()


_R, _RC, _C, _D, _L = Effect.READ, Effect.READ_OR_CHANGE, Effect.CHANGE, Effect.DESTROY, Effect.LOCAL

FAMILIES: dict[str, tuple[Entry, ...]] = {
    "Topics": (
        Entry("topicList", "topic", _R, "List all topics of the name server."),
        Entry("topicRoute", "topic", _R, "Show on which brokers and queues a topic lives."),
        Entry("topicStatus", "topic", _R, "Show where each queue of a topic begins and ends."),
        Entry("topicClusterList", "topic", _R, "List the clusters that a topic lives in."),
        Entry("statsAll", "stats", _R, "Show rates and lag of every topic and its groups."),
        Entry("updateTopic", "topic_changes", _C, "Create a topic, or change its configuration."),
        Entry("updateTopicPerm", "perm", _C, "Change whether a topic may be read and written."),
        Entry("deleteTopic", "topic_changes", _D, "Delete a topic from a cluster and from the name servers."),
    ),
    "Consumer groups": (
        Entry("consumerProgress", "progress", _R, "Show how far groups have consumed: lag by queue, or by group."),
        Entry("consumerConnection", "connection", _R, "Show a group's online clients and what they subscribe to."),
        Entry("consumerStatus", "consumer_status", _R, "Show what a group's clients say about themselves."),
        Entry("getConsumerConfig", "config", _R, "Show a group's configuration on every broker."),
        Entry("updateSubGroup", "group_changes", _C, "Create a consumer group, or change its configuration."),
        Entry("deleteSubGroup", "group_delete", _D, "Delete a consumer group."),
    ),
    "Producers": (
        Entry("producerConnection", "producer", _R, "Show the online clients of a producer group."),
        Entry("producer", "producer", _R, "List the producers of a broker."),
    ),
    "Offsets": (
        Entry("resetOffset", "offset", _D, "Move a group's offsets anywhere, and back.", is_mqadmin=False),
        Entry("resetOffsetByTime", "offset", _D, "Move a group's offsets in a topic to a time."),
        Entry("skipAccumulatedMessage", "offset", _D, "Move a group's offsets in a topic to the end."),
        Entry("cloneGroupOffset", "offset_clone", _D, "Move a group to where another group stands."),
    ),
    "Messages": (
        Entry("sendMessage", "send", _C, "Send one message."),
        Entry("queryMsgById", "message", _RC, "Show, resend or push one message by its id."),
        Entry("queryMsgByKey", "message_key", _R, "Find messages by key."),
        Entry("spark-replay", "spark_replay", _C, "Redrive dead letters or replay a topic, once.", is_mqadmin=False),
        Entry("queryMsgByUniqueKey", "message_unique", _RC, "Show or push the messages of a unique key."),
        Entry("queryMsgByOffset", "message_offset", _R, "Show the message at a place in a queue."),
        Entry("printMsg", "message_read", _R, "Read the messages of a topic."),
        Entry("printMsgByQueue", "message_read", _R, "Read the messages of one queue, or count their tags."),
        Entry("consumeMessage", "message_consume", _R, "Read some messages of a topic or a queue."),
    ),
    "Brokers": (
        Entry("clusterList", "cluster", _R, "List brokers with version, load and disk.", has_interval=True),
        Entry("brokerStatus", "broker", _R, "Show the runtime statistics of a broker."),
        Entry("getBrokerConfig", "config", _R, "Show the configuration of a broker."),
        Entry("updateBrokerConfig", "config_changes", _C, "Change one value of a broker's configuration."),
    ),
    "Name servers": (
        Entry("getNamesrvConfig", "config", _R, "Show the configuration of the name servers."),
        Entry("wipeWritePerm", "perm", _D, "Keep producers from a broker, at the name servers."),
        Entry("addWritePerm", "perm", _C, "Let producers write to a broker again."),
    ),
    "Watching": (Entry("tui", "tui", Effect.SCREEN, "Watch a cluster live, to its dead letters.", is_mqadmin=False),),
    "About": (
        Entry("explain", "explain", _L, "Say what a response code means and what to do about it.", is_mqadmin=False),
    ),
}
"""The commands as the help lists them."""

ENTRIES = tuple(entry for entries in FAMILIES.values() for entry in entries)

_BY_FOLDED_NAME = {entry.name.lower(): entry for entry in ENTRIES}


def find(name: str) -> Entry | None:
    """The entry of a name in any case, as mqadmin looks names up."""
    return _BY_FOLDED_NAME.get(name.lower())


def group_members(noun: str) -> list[Entry]:
    """The entries of a noun group: those named ``noun something``."""
    return [entry for entry in ENTRIES if entry.name.startswith(noun.lower() + " ")]


def top_level_names() -> list[str]:
    """Commands and noun groups, in the order of the table."""
    return list(dict.fromkeys(entry.name.partition(" ")[0] for entry in ENTRIES))
