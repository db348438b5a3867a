"""The table of commands: one line per command, and the package that holds its file.

Listing, completing and finding commands reads only this table. Only the invoked command's module is imported, because
importing all of them costs more than most commands do. Each command has a file of its own, named like its function:
``updateTopic`` of the noun ``topic`` is ``update_topic`` in ``rmqadmin/commands/topic/update_topic.py``; ``"dlq list"``
of the noun ``dlq`` is ``dlq_list`` in ``rmqadmin/commands/dlq/dlq_list.py``. To add a command, add a line here and that
file.
"""

from __future__ import annotations

from enum import Enum

import msgspec


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


class Entry(msgspec.Struct, frozen=True):
    """``summary`` is the first line of the help. ``is_mqadmin``: mqadmin 5.5.0 has a command of this name, or its
    release has the class of a command that mqadmin does not list. ``has_interval``: has mqadmin's own ``-i
    --interval``, which repeats the command."""

    name: str
    noun: str
    effect: Effect
    summary: str
    is_mqadmin: bool = True
    has_interval: bool = False

    @property
    def has_dry_run(self) -> bool:
        return self.effect in CHANGING

    @property
    def needs_yes(self) -> bool:
        """Whether what must be confirmed needs ``--yes`` where nobody can be asked. No script of mqadmin's has the
        command, for it is one of our noun groups."""
        return not self.is_mqadmin and " " in self.name

    @property
    def module(self) -> str:
        return f"rmqadmin.commands.{self.noun}.{self.function}"

    @property
    def function(self) -> str:
        found, before = "", ""
        for one in self.name.replace(" ", "_").replace("-", "_"):
            found += f"_{one}" if one.isupper() and (before.islower() or before.isdigit()) else one
            before = one
        return found.lower()


_R, _RC, _C, _D, _L = Effect.READ, Effect.READ_OR_CHANGE, Effect.CHANGE, Effect.DESTROY, Effect.LOCAL
_P, _S, _ST = Effect.PROBE, Effect.SETTINGS, Effect.STREAM

FAMILIES: dict[str, tuple[Entry, ...]] = {
    "Topics": (
        Entry("topicList", "topic", _R, "List all topics of the name server."),
        Entry("topicRoute", "topic", _R, "Show on which brokers and queues a topic lives."),
        Entry("topicStatus", "topic", _R, "Show where each queue of a topic begins and ends."),
        Entry("topicClusterList", "topic", _R, "List the clusters that a topic lives in."),
        Entry("statsAll", "topic", _R, "Show rates and lag of every topic and its groups."),
        Entry("allocateMQ", "topic", _R, "Show which queues the clients of a group would get."),
        Entry("queryCq", "topic", _R, "Show units of a consume queue as stored in its file."),
        Entry("updateTopic", "topic", _C, "Create a topic, or change its configuration."),
        Entry("updateTopicPerm", "topic", _C, "Change whether a topic can be read and written."),
        Entry("updateTopicList", "topic", _C, "Create or change many topics from a file."),
        Entry("updateStaticTopic", "topic", _C, "Create a static topic, or give it more queues."),
        Entry("remappingStaticTopic", "topic", _C, "Move the queues of a static topic to other brokers."),
        Entry("updateOrderConf", "topic", _RC, "Show, set or delete the order configuration of a topic."),
        Entry("topic ls", "topic", _R, "List topics.", is_mqadmin=False),
        Entry(
            "topic describe",
            "topic",
            _R,
            "Show topics: brokers, queues, groups and settings.",
            is_mqadmin=False,
        ),
        Entry("topic create", "topic", _C, "Create topics.", is_mqadmin=False),
        Entry("topic delete", "topic", _D, "Delete topics from a cluster and from the name servers.", is_mqadmin=False),
        Entry("deleteTopic", "topic", _D, "Delete a topic from a cluster and from the name servers."),
    ),
    "Consumer groups": (
        Entry("consumerProgress", "group", _R, "Show how far groups have consumed: lag by queue, or by group."),
        Entry("consumerConnection", "client", _R, "Show a group's online clients and what they subscribe to."),
        Entry("consumerStatus", "client", _R, "Show what a group's clients report about themselves."),
        Entry("group ls", "group", _R, "List consumer groups, with their clients and lag.", is_mqadmin=False),
        Entry("group describe", "group", _R, "Show groups: topics, clients and settings.", is_mqadmin=False),
        Entry("group lag", "group", _R, "Show a group's lag by queue: age, trend and owners.", is_mqadmin=False),
        Entry("getConsumerConfig", "group", _R, "Show a group's configuration on every broker."),
        Entry("startMonitoring", "group", _R, "Show how far all online groups are behind, and their problems."),
        Entry("updateSubGroup", "group", _C, "Create a consumer group, or change its configuration."),
        Entry("updateSubGroupList", "group", _C, "Create or change many consumer groups from a file."),
        Entry("setConsumeMode", "group", _C, "Choose whether a group pulls or pops a topic's messages."),
        Entry("deleteSubGroup", "group", _D, "Delete a consumer group."),
    ),
    "Lite topics": (
        Entry("getBrokerLiteInfo", "lite", _R, "Show brokers' counts of light queues and lite subscriptions."),
        Entry("getParentTopicInfo", "lite", _R, "Show how many lite topics a topic has, and who reads them."),
        Entry("getLiteTopicInfo", "lite", _R, "Show the offsets and subscribers of a lite topic."),
        Entry("getLiteClientInfo", "lite", _R, "Show which lite topics a client has subscribed to."),
        Entry("getLiteGroupInfo", "lite", _R, "Show how far a group is behind in lite topics."),
        Entry("triggerLiteDispatch", "lite", _C, "Make brokers offer a group its lite topics again."),
    ),
    "Producers": (
        Entry("producerConnection", "client", _R, "Show the online clients of a producer group."),
        Entry("producer", "client", _R, "List the producers of a broker."),
    ),
    "Offsets": (
        Entry("resetOffset", "offset", _D, "Move a group's offsets anywhere, or undo such a move.", is_mqadmin=False),
        Entry("resetOffsetByTime", "offset", _D, "Move a group's offsets in a topic to a time."),
        Entry("skipAccumulatedMessage", "offset", _D, "Move a group's offsets in a topic to the end."),
        Entry("cloneGroupOffset", "offset", _D, "Move a group to the offsets of another group."),
    ),
    "Messages": (
        Entry("sendMessage", "message", _C, "Send one message."),
        Entry("msg send", "msg", _C, "Send messages from arguments, files, lines or JSON Lines.", is_mqadmin=False),
        Entry("msg cat", "msg", Effect.STREAM, "Read messages, filtered and formatted as you like.", is_mqadmin=False),
        Entry("msg export", "msg", Effect.STREAM, "Write whole messages to a file, for msg import.", is_mqadmin=False),
        Entry("msg import", "msg", _C, "Send the messages of an exported file again.", is_mqadmin=False),
        Entry("msg get", "msg", _R, "Find messages by any id or key.", is_mqadmin=False),
        Entry("queryMsgById", "message", _RC, "Show, resend or push one message by its id."),
        Entry("queryMsgByKey", "message", _R, "Find messages by key."),
        Entry("queryMsgByUniqueKey", "message", _RC, "Show or push the messages of a unique key."),
        Entry("queryMsgTraceById", "message", _R, "Show what clients have traced about a message."),
        Entry("queryMsgByOffset", "message", _R, "Show the message at a place in a queue."),
        Entry("printMsg", "message", _R, "Read the messages of a topic."),
        Entry("printMsgByQueue", "message", _R, "Read the messages of one queue, or count their tags."),
        Entry("consumeMessage", "message", _R, "Read some messages of a topic or a queue."),
        Entry("checkMsgSendRT", "message", _P, "Send test messages to a topic, and time them."),
    ),
    "Dead letters": (
        Entry("dlq ls", "dlq", _R, "List the groups that have dead letters.", is_mqadmin=False),
        Entry("dlq show", "dlq", _R, "Show a group's dead letters.", is_mqadmin=False),
        Entry("dlq redrive", "dlq", _C, "Redrive a group's dead letters, each message once.", is_mqadmin=False),
        Entry("spark-report", "replay", _R, "Report on topics, traces or dead letters; verify.", is_mqadmin=False),
        Entry(
            "spark-replay", "replay", _C, "Redrive dead letters or replay a topic, each message once.", is_mqadmin=False
        ),
        Entry(
            "spark-archive",
            "replay",
            Effect.STREAM,
            "Archive topics in Parquet, each message once, before retention deletes them.",
            is_mqadmin=False,
        ),
    ),
    "Brokers": (
        Entry("clusterList", "cluster", _R, "List brokers with version, load and disk.", has_interval=True),
        Entry("clusterRT", "cluster", _P, "Send test messages to every broker, and time them.", has_interval=True),
        Entry("sendMsgStatus", "broker", _P, "Send test messages to one broker, and show its answers."),
        Entry("brokerConsumeStats", "broker", _R, "Show offsets and lag of every group of one broker."),
        Entry("brokerStatus", "broker", _R, "Show the runtime statistics of a broker."),
        Entry("getBrokerConfig", "broker", _R, "Show the configuration of a broker."),
        Entry("updateBrokerConfig", "broker", _C, "Change one value of a broker's configuration."),
        Entry("addBroker", "broker", _C, "Start a broker in a broker container."),
        Entry("removeBroker", "broker", _D, "Stop a broker of a broker container."),
        Entry("switchTimerEngine", "broker", _C, "Choose where a broker keeps its timers."),
        Entry("cleanExpiredCQ", "broker", _C, "Delete consume queue files whose messages are gone."),
        Entry("cleanUnusedTopic", "broker", _D, "Delete the files of topics that a broker does not know."),
        Entry("deleteExpiredCommitLog", "broker", _D, "Delete expired commit log files at once."),
    ),
    "Export": (
        Entry("exportMetadata", "metadata", _R, "Show topics and groups, and write them to a file."),
        Entry("exportConfigs", "metadata", _R, "Show the main settings of all masters of a cluster."),
        Entry("exportMetrics", "metadata", _R, "Show the load and size of all masters of a cluster."),
        Entry("exportPopRecord", "metadata", _C, "Make brokers write their POP records to files."),
        Entry("rocksDBConfigToJson", "metadata", _RC, "Write brokers' RocksDB tables as JSON."),
        Entry("exportMetadataInRocksDB", "metadata", _R, "Show topics or groups from RocksDB files."),
        Entry(
            "checkRocksdbCqWriteProgress", "metadata", _R, "Make brokers compare their queues in RocksDB and in files."
        ),
        Entry("dumpCompactionLog", "message", _R, "Show the messages in a file of a compacted topic's log."),
    ),
    "Wanted state": (
        Entry("export topics", "export", _ST, "Write topics as a file for apply.", is_mqadmin=False),
        Entry("export groups", "export", _ST, "Write consumer groups as a file for apply.", is_mqadmin=False),
        Entry("export users", "export", _ST, "Write users as a file for apply.", is_mqadmin=False),
        Entry("export acls", "export", _ST, "Write ACLs as a file for apply.", is_mqadmin=False),
        Entry("diff", "manifest", _R, "Show what apply would change.", is_mqadmin=False),
        Entry("apply", "manifest", _C, "Change brokers to what a file says.", is_mqadmin=False),
    ),
    "Load": (
        Entry("bench send", "bench", _C, "Send as fast as brokers accept, and measure it.", is_mqadmin=False),
        Entry(
            "bench consume", "bench", Effect.STREAM, "Read as fast as brokers answer, and measure it.", is_mqadmin=False
        ),
        Entry("bench latency", "bench", _C, "Measure the time from producer to consumer.", is_mqadmin=False),
    ),
    "Stores of stopped brokers": (
        Entry("store inspect", "store", _L, "Show what a store directory holds.", is_mqadmin=False),
        Entry("store verify", "store", _L, "Check every file of a store directory.", is_mqadmin=False),
        Entry("store dump", "store", _L, "Show what is in the files of a store.", is_mqadmin=False),
        Entry("store start-plan", "store", _L, "Show what a start would change in a store.", is_mqadmin=False),
    ),
    "Cold data": (
        Entry("getColdDataFlowCtrInfo", "cold", _R, "Show how much cold data groups read, and may read."),
        Entry("updateColdDataFlowCtrGroupConfig", "cold", _C, "Set how much cold data a group may read."),
        Entry("removeColdDataFlowCtrGroupConfig", "cold", _D, "Remove a group's own limit on cold data."),
        Entry("setCommitLogReadAheadMode", "cold", _C, "Choose how brokers read their commit logs."),
    ),
    "Replicas and controllers": (
        Entry("haStatus", "ha", _R, "Show how far slaves are behind their masters.", has_interval=True),
        Entry("getSyncStateSet", "ha", _R, "Show which replicas of a broker are in sync.", has_interval=True),
        Entry("getBrokerEpoch", "ha", _R, "Show which master wrote which part of a log.", has_interval=True),
        Entry("resetMasterFlushOffset", "ha", _C, "Set how far a slave believes its master has flushed."),
        Entry("getControllerMetaData", "controller", _R, "List the controllers and show which one leads."),
        Entry("getControllerConfig", "controller", _R, "Show the configuration of controllers."),
        Entry("updateControllerConfig", "controller", _C, "Change one value of the controllers' configuration."),
        Entry("electMaster", "controller", _D, "Make one replica of a broker the master."),
        Entry("cleanBrokerMetadata", "controller", _D, "Make the controllers forget replicas of a broker."),
    ),
    "Users and ACL": (
        Entry("user ls", "user", _R, "List the users of brokers.", is_mqadmin=False),
        Entry("user add", "user", _C, "Create a user; asks for the password.", is_mqadmin=False),
        Entry("user edit", "user", _C, "Change password, type or status of a user.", is_mqadmin=False),
        Entry("user rm", "user", _D, "Delete a user.", is_mqadmin=False),
        Entry("acl ls", "acl", _R, "List who may do what.", is_mqadmin=False),
        Entry("acl grant", "acl", _C, "Let a user do more.", is_mqadmin=False),
        Entry("acl revoke", "acl", _D, "Let a user do less.", is_mqadmin=False),
        Entry("acl can", "acl", _R, "Say whether a user may do something, and which entry decides.", is_mqadmin=False),
        Entry("listUser", "auth", _R, "List the users of a broker or of a cluster."),
        Entry("getUser", "auth", _R, "Show one user."),
        Entry("createUser", "auth", _C, "Create a user."),
        Entry("updateUser", "auth", _C, "Change the password, type or status of a user."),
        Entry("deleteUser", "auth", _D, "Delete a user."),
        Entry("copyUser", "auth", _C, "Copy users from one broker to another."),
        Entry("listAcl", "auth", _R, "List who may do what."),
        Entry("getAcl", "auth", _R, "Show what one user may do."),
        Entry("createAcl", "auth", _C, "Set what a user may do."),
        Entry("updateAcl", "auth", _C, "Change what a user may do."),
        Entry("deleteAcl", "auth", _D, "Delete a user's ACL entries, of one resource or of all."),
        Entry("copyAcl", "auth", _C, "Copy what users may do from one broker to another."),
    ),
    "Name servers": (
        Entry("getNamesrvConfig", "namesrv", _R, "Show the configuration of the name servers."),
        Entry("updateNamesrvConfig", "namesrv", _C, "Change one value of the name servers' configuration."),
        Entry("updateKvConfig", "namesrv", _C, "Set one value of the name servers' key-value table."),
        Entry("deleteKvConfig", "namesrv", _D, "Delete one key of the name servers' key-value table."),
        Entry("wipeWritePerm", "namesrv", _D, "Stop producers from writing to a broker, at the name servers."),
        Entry("addWritePerm", "namesrv", _C, "Let producers write to a broker again."),
    ),
    "Health": (
        Entry("doctor", "health", _R, "Say what is wrong with a cluster, and what to do.", is_mqadmin=False),
        Entry("check lag", "check", Effect.CHECK, "For monitoring: how far groups are behind.", is_mqadmin=False),
        Entry("check disk", "check", Effect.CHECK, "For monitoring: how full brokers' disks are.", is_mqadmin=False),
        Entry("check broker", "check", Effect.CHECK, "For monitoring: whether brokers serve.", is_mqadmin=False),
        Entry("check ha", "check", Effect.CHECK, "For monitoring: whether slaves could take over.", is_mqadmin=False),
        Entry("check dlq", "check", Effect.CHECK, "For monitoring: how many dead letters there are.", is_mqadmin=False),
    ),
    "Watching": (
        Entry(
            "shell", "shell", Effect.SCREEN, "Run many commands, without the start-up time of each.", is_mqadmin=False
        ),
        Entry("tui", "dashboard", Effect.SCREEN, "Watch a cluster live, down to its dead letters.", is_mqadmin=False),
    ),
    "Contexts and settings": (
        Entry("context ls", "context", _L, "List the contexts, and which of them is in use.", is_mqadmin=False),
        Entry("context use", "context", _S, "Choose the context of commands that do not name one.", is_mqadmin=False),
        Entry("context add", "context", _S, "Give a cluster a name, and say how it is reached.", is_mqadmin=False),
        Entry("context show", "context", _L, "Show the settings of a context.", is_mqadmin=False),
        Entry("context edit", "context", _S, "Change the settings of a context.", is_mqadmin=False),
        Entry("context validate", "context", _L, "Check contexts, and whether they can be reached.", is_mqadmin=False),
        Entry("context rm", "context", _S, "Remove a context.", is_mqadmin=False),
        Entry("config show", "config", _R, "Show the settings in force, and where they come from.", is_mqadmin=False),
        Entry("audit", "audit", _L, "Show what you have changed, from the log of changes.", is_mqadmin=False),
        Entry("config validate", "config", _L, "Check the settings file.", is_mqadmin=False),
    ),
    "For tests of applications, on rmqserver": (
        Entry(
            "fault ls", "fault", _R, "Show the rules by which requests fail, and how often they did.", is_mqadmin=False
        ),
        Entry("fault set", "fault", _C, "Make requests fail: delayed, refused or lost.", is_mqadmin=False),
        Entry("fault clear", "fault", _C, "Remove all rules, so that no request is made to fail.", is_mqadmin=False),
        Entry("snapshot ls", "snapshot", _R, "List the snapshots of a broker.", is_mqadmin=False),
        Entry("snapshot save", "snapshot", _C, "Save everything that a broker has, under a name.", is_mqadmin=False),
        Entry("snapshot restore", "snapshot", _D, "Restore a broker to a snapshot.", is_mqadmin=False),
        Entry("server reset", "server", _D, "Reset a broker to its start: empty, or seeded.", is_mqadmin=False),
    ),
    "About": (
        Entry("man", "about", _L, "Show the manual page of a command.", is_mqadmin=False),
        Entry("completion", "about", _L, "Print or install the completion of a shell.", is_mqadmin=False),
        Entry("explain", "about", _L, "Say what a response code means and what to do about it.", is_mqadmin=False),
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
