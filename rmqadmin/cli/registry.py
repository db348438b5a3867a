"""The table of commands: one line per command, and the file that holds it.

Listing, completing and finding commands reads only this table. Only the invoked command's module is imported, because
importing all of them costs more than most commands do. ``updateTopic`` of the file ``topic.topic_updates`` is
``update_topic`` in ``rmqadmin/commands/topic/topic_updates.py``; ``"dlq ls"`` is ``dlq_ls``. To add a command, add a
line here and that function.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable
from enum import Enum
from importlib import import_module
from types import UnionType
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from rmqadmin.core.results import Result


class Effect(Enum):
    """What a command can do. It decides which options every such command has."""

    LOCAL = "asks no server"
    SETTINGS = "changes settings of this program"
    READ = "reads"
    STREAM = "reads; shows while it reads, once"
    CHECK = "reads; ends with the statuses of monitoring plug-ins"
    READ_OR_CHANGE = "reads; changes with some options"
    CHANGE = "changes"
    PROBE = "sends test messages"
    SCREEN = "takes the terminal; has no output"
    DESTROY = "deletes, wipes or resets: asks for the name on a terminal"


CHANGING = frozenset({Effect.READ_OR_CHANGE, Effect.CHANGE, Effect.PROBE, Effect.DESTROY})
"""Effects on servers. Such commands have --dry-run."""


_OURS = frozenset(
    {"resetOffset", "spark-report", "spark-replay", "spark-archive", "diff", "apply", "doctor", "shell", "tui", "audit"}
    | {"man", "completion", "explain"}
)
"""Commands without a noun that mqadmin does not have."""


class Entry(msgspec.Struct, frozen=True):
    """``file`` is below ``rmqadmin/commands/``; ``summary`` is the first line of the help. ``has_interval``: has
    mqadmin's own ``-i --interval``, which repeats the command."""

    name: str
    file: str
    effect: Effect
    summary: str
    has_interval: bool = False

    @property
    def is_mqadmin(self) -> bool:
        """Whether mqadmin 5.5.0 has a command of this name, or its release has the class of a command that mqadmin does
        not list."""
        return " " not in self.name and self.name not in _OURS

    @property
    def has_dry_run(self) -> bool:
        return self.effect in CHANGING

    @property
    def needs_yes(self) -> bool:
        """Whether what must be confirmed needs ``--yes`` where nobody can be asked. No script of mqadmin's has the
        command, for it is one of our noun groups."""
        return " " in self.name

    @property
    def function(self) -> str:
        return re.sub("[ -]|(?<=[a-z0-9])(?=[A-Z])", "_", self.name).lower()

    def load(self) -> Callable[..., Result]:
        """The command's function. Imports its file."""
        name = self.function
        function: Callable[..., Result] = getattr(import_module(f"rmqadmin.commands.{self.file}"), name)
        return function

    def result_types(self) -> list[type[Result]]:
        """The types of its answers, from the function's return annotation; none of one that takes the terminal."""
        if self.effect is Effect.SCREEN:
            return []
        annotation = typing.get_type_hints(self.load())["return"]
        return list(typing.get_args(annotation)) if isinstance(annotation, UnionType) else [annotation]


_R, _RC, _C, _D, _L = Effect.READ, Effect.READ_OR_CHANGE, Effect.CHANGE, Effect.DESTROY, Effect.LOCAL
_P, _S, _ST, _CK = Effect.PROBE, Effect.SETTINGS, Effect.STREAM, Effect.CHECK

FAMILIES: dict[str, tuple[Entry, ...]] = {
    "Topics": (
        Entry("topicList", "topic.topic_lists", _R, "List all topics of the name server."),
        Entry("topicRoute", "topic.topic_views", _R, "Show on which brokers and queues a topic lives."),
        Entry("topicStatus", "topic.topic_views", _R, "Show where each queue of a topic begins and ends."),
        Entry("topicClusterList", "topic.topic_lists", _R, "List the clusters that a topic lives in."),
        Entry("statsAll", "topic.stats_all", _R, "Show rates and lag of every topic and its groups."),
        Entry("allocateMQ", "topic.consume_queues", _R, "Show which queues the clients of a group would get."),
        Entry("queryCq", "topic.consume_queues", _R, "Show units of a consume queue as stored in its file."),
        Entry("updateTopic", "topic.topic_updates", _C, "Create a topic, or change its configuration."),
        Entry("updateTopicPerm", "topic.topic_updates", _C, "Change whether a topic can be read and written."),
        Entry("updateTopicList", "topic.topic_updates", _C, "Create or change many topics from a file."),
        Entry("updateStaticTopic", "topic.static_topics", _C, "Create a static topic, or give it more queues."),
        Entry("remappingStaticTopic", "topic.static_topics", _C, "Move the queues of a static topic to other brokers."),
        Entry("updateOrderConf", "topic.topic_updates", _RC, "Show, set or delete the order configuration of a topic."),
        Entry("topic ls", "topic.topic_lists", _R, "List topics."),
        Entry("topic describe", "topic.topic_views", _R, "Show topics: brokers, queues, groups and settings."),
        Entry("topic create", "topic.topic_updates", _C, "Create topics."),
        Entry("topic delete", "topic.topic_deletion", _D, "Delete topics from a cluster and from the name servers."),
        Entry("deleteTopic", "topic.topic_deletion", _D, "Delete a topic from a cluster and from the name servers."),
    ),
    "Consumer groups": (
        Entry(
            "consumerProgress",
            "group.progress",
            _R,
            "Show how far groups have consumed: lag by queue, or by group.",
        ),
        Entry("consumerConnection", "group.clients", _R, "Show a group's online clients and what they subscribe to."),
        Entry("consumerStatus", "group.clients", _R, "Show what a group's clients report about themselves."),
        Entry("group ls", "group.progress", _R, "List consumer groups, with their clients and lag."),
        Entry("group describe", "group.group_views", _R, "Show groups: topics, clients and settings."),
        Entry("group lag", "group.group_lag", _R, "Show a group's lag by queue: age, trend and owners."),
        Entry("getConsumerConfig", "group.group_views", _R, "Show a group's configuration on every broker."),
        Entry(
            "startMonitoring", "group.monitoring", _R, "Show how far all online groups are behind, and their problems."
        ),
        Entry("updateSubGroup", "group.group_updates", _C, "Create a consumer group, or change its configuration."),
        Entry("updateSubGroupList", "group.group_updates", _C, "Create or change many consumer groups from a file."),
        Entry("setConsumeMode", "group.group_updates", _C, "Choose whether a group pulls or pops a topic's messages."),
        Entry("deleteSubGroup", "group.group_updates", _D, "Delete a consumer group."),
    ),
    "Lite topics": (
        Entry(
            "getBrokerLiteInfo", "group.lite_topics", _R, "Show brokers' counts of light queues and lite subscriptions."
        ),
        Entry(
            "getParentTopicInfo", "group.lite_topics", _R, "Show how many lite topics a topic has, and who reads them."
        ),
        Entry("getLiteTopicInfo", "group.lite_topics", _R, "Show the offsets and subscribers of a lite topic."),
        Entry("getLiteClientInfo", "group.lite_groups", _R, "Show which lite topics a client has subscribed to."),
        Entry("getLiteGroupInfo", "group.lite_groups", _R, "Show how far a group is behind in lite topics."),
        Entry("triggerLiteDispatch", "group.lite_groups", _C, "Make brokers offer a group its lite topics again."),
    ),
    "Producers": (
        Entry("producerConnection", "group.clients", _R, "Show the online clients of a producer group."),
        Entry("producer", "group.clients", _R, "List the producers of a broker."),
    ),
    "Offsets": (
        Entry("resetOffset", "group.offsets", _D, "Move a group's offsets anywhere, or undo such a move."),
        Entry("resetOffsetByTime", "group.offsets", _D, "Move a group's offsets in a topic to a time."),
        Entry("skipAccumulatedMessage", "group.offsets", _D, "Move a group's offsets in a topic to the end."),
        Entry("cloneGroupOffset", "group.offsets", _D, "Move a group to the offsets of another group."),
    ),
    "Messages": (
        Entry("sendMessage", "message.probes", _C, "Send one message."),
        Entry("msg send", "message.msg_send", _C, "Send messages from arguments, files, lines or JSON Lines."),
        Entry("msg cat", "message.msg_cat", _ST, "Read messages, filtered and formatted as you like."),
        Entry("msg export", "message.msg_export", _ST, "Write whole messages to a file, for msg import."),
        Entry("msg import", "message.msg_import", _C, "Send the messages of an exported file again."),
        Entry("msg get", "message.msg_get", _R, "Find messages by any id or key."),
        Entry("queryMsgById", "message.queries", _RC, "Show, resend or push one message by its id."),
        Entry("queryMsgByKey", "message.queries", _R, "Find messages by key."),
        Entry("queryMsgByUniqueKey", "message.queries", _RC, "Show or push the messages of a unique key."),
        Entry("queryMsgTraceById", "message.traces", _R, "Show what clients have traced about a message."),
        Entry("queryMsgByOffset", "message.queries", _R, "Show the message at a place in a queue."),
        Entry("printMsg", "message.printing", _R, "Read the messages of a topic."),
        Entry("printMsgByQueue", "message.printing", _R, "Read the messages of one queue, or count their tags."),
        Entry("consumeMessage", "message.consume_message", _R, "Read some messages of a topic or a queue."),
        Entry("checkMsgSendRT", "message.probes", _P, "Send test messages to a topic, and time them."),
    ),
    "Dead letters": (
        Entry("dlq ls", "message.dead_letters", _R, "List the groups that have dead letters."),
        Entry("dlq show", "message.dead_letters", _R, "Show a group's dead letters."),
        Entry("dlq redrive", "message.dead_letters", _C, "Redrive a group's dead letters, each message once."),
        Entry("spark-report", "replay.spark_report", _R, "Report on topics, traces or dead letters; verify."),
        Entry("spark-replay", "replay.spark_replay", _C, "Redrive dead letters or replay a topic, each message once."),
        Entry(
            "spark-archive",
            "replay.spark_archive",
            _ST,
            "Archive topics in Parquet, each message once, before retention deletes them.",
        ),
    ),
    "Brokers": (
        Entry("clusterList", "server.cluster_list", _R, "List brokers with version, load and disk.", has_interval=True),
        Entry(
            "clusterRT", "message.probes", _P, "Send test messages to every broker, and time them.", has_interval=True
        ),
        Entry("sendMsgStatus", "message.probes", _P, "Send test messages to one broker, and show its answers."),
        Entry("brokerConsumeStats", "server.broker_stats", _R, "Show offsets and lag of every group of one broker."),
        Entry("brokerStatus", "server.broker_stats", _R, "Show the runtime statistics of a broker."),
        Entry("getBrokerConfig", "server.server_configs", _R, "Show the configuration of a broker."),
        Entry("updateBrokerConfig", "server.server_configs", _C, "Change one value of a broker's configuration."),
        Entry("addBroker", "server.upkeep", _C, "Start a broker in a broker container."),
        Entry("removeBroker", "server.upkeep", _D, "Stop a broker of a broker container."),
        Entry("switchTimerEngine", "server.upkeep", _C, "Choose where a broker keeps its timers."),
        Entry("cleanExpiredCQ", "server.upkeep", _C, "Delete consume queue files whose messages are gone."),
        Entry("cleanUnusedTopic", "server.upkeep", _D, "Delete the files of topics that a broker does not know."),
        Entry("deleteExpiredCommitLog", "server.upkeep", _D, "Delete expired commit log files at once."),
    ),
    "Export": (
        Entry("exportMetadata", "export.exports", _R, "Show topics and groups, and write them to a file."),
        Entry("exportConfigs", "export.exports", _R, "Show the main settings of all masters of a cluster."),
        Entry("exportMetrics", "export.export_metrics", _R, "Show the load and size of all masters of a cluster."),
        Entry("exportPopRecord", "export.exports", _C, "Make brokers write their POP records to files."),
        Entry("rocksDBConfigToJson", "export.rocksdb_tables", _RC, "Write brokers' RocksDB tables as JSON."),
        Entry("exportMetadataInRocksDB", "export.rocksdb_tables", _R, "Show topics or groups from RocksDB files."),
        Entry(
            "checkRocksdbCqWriteProgress",
            "export.rocksdb_tables",
            _R,
            "Make brokers compare their queues in RocksDB and in files.",
        ),
        Entry("dumpCompactionLog", "message.printing", _R, "Show the messages in a file of a compacted topic's log."),
    ),
    "Wanted state": (
        Entry("export topics", "export.manifests", _ST, "Write topics as a file for apply."),
        Entry("export groups", "export.manifests", _ST, "Write consumer groups as a file for apply."),
        Entry("export users", "export.manifests", _ST, "Write users as a file for apply."),
        Entry("export acls", "export.manifests", _ST, "Write ACLs as a file for apply."),
        Entry("diff", "export.manifests", _R, "Show what apply would change."),
        Entry("apply", "export.manifests", _C, "Change brokers to what a file says."),
    ),
    "Load": (
        Entry("bench send", "load", _C, "Send as fast as brokers accept, and measure it."),
        Entry("bench consume", "load", _ST, "Read as fast as brokers answer, and measure it."),
        Entry("bench latency", "load", _C, "Measure the time from producer to consumer."),
    ),
    "Stores of stopped brokers": (
        Entry("store inspect", "export.stores", _L, "Show what a store directory holds."),
        Entry("store verify", "export.stores", _L, "Check every file of a store directory."),
        Entry("store dump", "export.stores", _L, "Show what is in the files of a store."),
        Entry("store start-plan", "export.stores", _L, "Show what a start would change in a store."),
    ),
    "Cold data": (
        Entry("getColdDataFlowCtrInfo", "server.cold_data", _R, "Show how much cold data groups read, and may read."),
        Entry("updateColdDataFlowCtrGroupConfig", "server.cold_data", _C, "Set how much cold data a group may read."),
        Entry("removeColdDataFlowCtrGroupConfig", "server.cold_data", _D, "Remove a group's own limit on cold data."),
        Entry("setCommitLogReadAheadMode", "server.upkeep", _C, "Choose how brokers read their commit logs."),
    ),
    "Replicas and controllers": (
        Entry("haStatus", "server.replicas", _R, "Show how far slaves are behind their masters.", has_interval=True),
        Entry(
            "getSyncStateSet", "server.replicas", _R, "Show which replicas of a broker are in sync.", has_interval=True
        ),
        Entry(
            "getBrokerEpoch", "server.replicas", _R, "Show which master wrote which part of a log.", has_interval=True
        ),
        Entry("resetMasterFlushOffset", "server.upkeep", _C, "Set how far a slave believes its master has flushed."),
        Entry("getControllerMetaData", "server.controllers", _R, "List the controllers and show which one leads."),
        Entry("getControllerConfig", "server.server_configs", _R, "Show the configuration of controllers."),
        Entry(
            "updateControllerConfig", "server.server_configs", _C, "Change one value of the controllers' configuration."
        ),
        Entry("electMaster", "server.controllers", _D, "Make one replica of a broker the master."),
        Entry("cleanBrokerMetadata", "server.controllers", _D, "Make the controllers forget replicas of a broker."),
    ),
    "Users and ACL": (
        Entry("user ls", "users", _R, "List the users of brokers."),
        Entry("user add", "users", _C, "Create a user; asks for the password."),
        Entry("user edit", "users", _C, "Change password, type or status of a user."),
        Entry("user rm", "users", _D, "Delete a user."),
        Entry("acl ls", "acls", _R, "List who may do what."),
        Entry("acl grant", "acls", _C, "Let a user do more."),
        Entry("acl revoke", "acls", _D, "Let a user do less."),
        Entry("acl can", "acls", _R, "Say whether a user may do something, and which entry decides."),
        Entry("listUser", "users", _R, "List the users of a broker or of a cluster."),
        Entry("getUser", "users", _R, "Show one user."),
        Entry("createUser", "users", _C, "Create a user."),
        Entry("updateUser", "users", _C, "Change the password, type or status of a user."),
        Entry("deleteUser", "users", _D, "Delete a user."),
        Entry("copyUser", "users", _C, "Copy users from one broker to another."),
        Entry("listAcl", "acls", _R, "List who may do what."),
        Entry("getAcl", "acls", _R, "Show what one user may do."),
        Entry("createAcl", "acls", _C, "Set what a user may do."),
        Entry("updateAcl", "acls", _C, "Change what a user may do."),
        Entry("deleteAcl", "acls", _D, "Delete a user's ACL entries, of one resource or of all."),
        Entry("copyAcl", "acls", _C, "Copy what users may do from one broker to another."),
    ),
    "Name servers": (
        Entry("getNamesrvConfig", "server.server_configs", _R, "Show the configuration of the name servers."),
        Entry(
            "updateNamesrvConfig", "server.server_configs", _C, "Change one value of the name servers' configuration."
        ),
        Entry("updateKvConfig", "server.server_configs", _C, "Set one value of the name servers' key-value table."),
        Entry("deleteKvConfig", "server.server_configs", _D, "Delete one key of the name servers' key-value table."),
        Entry(
            "wipeWritePerm",
            "server.server_configs",
            _D,
            "Stop producers from writing to a broker, at the name servers.",
        ),
        Entry("addWritePerm", "server.server_configs", _C, "Let producers write to a broker again."),
    ),
    "Health": (
        Entry("doctor", "doctor", _R, "Say what is wrong with a cluster, and what to do."),
        Entry("check lag", "checks", _CK, "For monitoring: how far groups are behind."),
        Entry("check disk", "checks", _CK, "For monitoring: how full brokers' disks are."),
        Entry("check broker", "checks", _CK, "For monitoring: whether brokers serve."),
        Entry("check ha", "checks", _CK, "For monitoring: whether slaves could take over."),
        Entry("check dlq", "checks", _CK, "For monitoring: how many dead letters there are."),
    ),
    "Watching": (
        Entry("shell", "shell", Effect.SCREEN, "Run many commands, without the start-up time of each."),
        Entry("tui", "tui", Effect.SCREEN, "Watch a cluster live, down to its dead letters."),
    ),
    "Contexts and settings": (
        Entry("context ls", "contexts", _L, "List the contexts, and which of them is in use."),
        Entry("context use", "contexts", _S, "Choose the context of commands that do not name one."),
        Entry("context add", "contexts", _S, "Give a cluster a name, and say how it is reached."),
        Entry("context show", "contexts", _L, "Show the settings of a context."),
        Entry("context edit", "contexts", _S, "Change the settings of a context."),
        Entry("context validate", "contexts", _L, "Check contexts, and whether they can be reached."),
        Entry("context rm", "contexts", _S, "Remove a context."),
        Entry("config show", "contexts", _R, "Show the settings in force, and where they come from."),
        Entry("audit", "audit", _L, "Show what you have changed, from the log of changes."),
        Entry("config validate", "contexts", _L, "Check the settings file."),
    ),
    "For tests of applications, on rmqserver": (
        Entry("fault ls", "server.testing_aids", _R, "Show the rules by which requests fail, and how often they did."),
        Entry("fault set", "server.testing_aids", _C, "Make requests fail: delayed, refused or lost."),
        Entry("fault clear", "server.testing_aids", _C, "Remove all rules, so that no request is made to fail."),
        Entry("snapshot ls", "server.testing_aids", _R, "List the snapshots of a broker."),
        Entry("snapshot save", "server.testing_aids", _C, "Save everything that a broker has, under a name."),
        Entry("snapshot restore", "server.testing_aids", _D, "Restore a broker to a snapshot."),
        Entry("server reset", "server.testing_aids", _D, "Reset a broker to its start: empty, or seeded."),
    ),
    "About": (
        Entry("man", "about", _L, "Show the manual page of a command."),
        Entry("completion", "about", _L, "Print or install the completion of a shell."),
        Entry("explain", "about", _L, "Say what a response code means and what to do about it."),
    ),
}
"""The commands as the help lists them."""

DAILY = {
    "tui": "the live dashboard",
    "doctor": "what is wrong, what mends it",
    "clusterList": "brokers",
    "topic": "topics",
    "group": "consumer groups",
    "resetOffset": "move a group, or back",
    "msg": "messages",
    "dlq": "dead letters",
    "spark-replay": "dead letters in volume",
    "user": "users",
    "acl": "what users may do",
    "check": "for monitoring",
    "store": "files of a stopped broker",
    "bench": "how fast it is",
    "context": "clusters by name",
    "shell": "commands without start-up",
    "completion": "of bash, zsh and fish",
    "explain": "response codes",
}
"""Commands, or nouns with all their verbs, that people need daily, and what they are about."""

NOUN_SUMMARIES = {
    "topic": "List, create, look at and delete topics.",
    "group": "List consumer groups, and look into them.",
    "msg": "Find, read, send and copy messages.",
    "dlq": "List, look at and redrive dead letters.",
    "export": "Write what brokers have as files for apply.",
    "bench": "Measure how fast a cluster sends, reads and delivers.",
    "store": "Look into the files of a stopped broker, and check them.",
    "user": "List and change the users of brokers.",
    "acl": "Show, change and explain what users may do.",
    "check": "Check a cluster for a monitoring system: one line, and the status of a plug-in.",
    "context": "Name clusters, and say how each is reached.",
    "config": "Show and check the settings of this program.",
    "fault": "Make requests of a test fail.",
    "snapshot": "Save the state of a broker between tests, and restore it.",
    "server": "Reset a broker between tests.",
}
"""The first line of the help of each noun group."""

_ACL_FILES = "edit conf/plain_acl.yml of the broker, or go over to users and policies"
DROPPED = {
    "updateaclconfig": f"Of ACL 1.0, and not in 5.5.0: createUser and createAcl, or {_ACL_FILES} (docs/security.md).",
    "deleteaclconfig": f"Of ACL 1.0, and not in 5.5.0: deleteUser and deleteAcl, or {_ACL_FILES} (docs/security.md).",
    "getaclconfig": f"Of ACL 1.0, and not in 5.5.0: listUser and listAcl, or {_ACL_FILES} (docs/security.md).",
    "clusteraclconfigversion": f"Of ACL 1.0, and not in 5.5.0: listAcl, or {_ACL_FILES} (docs/security.md).",
    "updateglobalwhiteaddr": f"Of ACL 1.0, and not in 5.5.0: createAcl --sourceIp, or {_ACL_FILES} (docs/security.md).",
}
"""What to use instead of commands that ``mqadmin`` had, by their names in lower case."""

ENTRIES = tuple(entry for entries in FAMILIES.values() for entry in entries)

_BY_FOLDED_NAME = {entry.name.lower(): entry for entry in ENTRIES}


def find(name: str) -> Entry | None:
    """The entry for a name in any case, as mqadmin looks names up."""
    return _BY_FOLDED_NAME.get(name.lower())


def group_members(noun: str) -> list[Entry]:
    """The entries of a noun group: those named ``noun something``."""
    return [entry for entry in ENTRIES if entry.name.startswith(noun.lower() + " ")]


def top_level_names() -> list[str]:
    """Commands and noun groups, in the order of the table."""
    return list(dict.fromkeys(entry.name.partition(" ")[0] for entry in ENTRIES))
