"""The options of a redrive or replay, in groups: a command gets each group as one frozen value. The help says what each
option means; the groups show which belong together."""

from typing import Annotated

from rmqadmin.cli.options.command_options import LONG, Texts
from rmqadmin.cli.options.common_options import OptionGroup, Value, option
from rmqadmin.cli.options.message_options import ConditionOptions, Rate, StoredSince
from rmqadmin.core.messages.redriving import REDRIVES_MAX
from rmqproto.times import Tell, TimeRange, time_range

Before = Annotated[str | None, Value.TIME, option("--to-time", "--until", "Stored before.")]
Ledger = Annotated[
    str | None, Value.FILE, option("--ledger", "Directory of all jobs' plans and ledgers.", metavar="DIR")
]
Limit = Annotated[int | None, LONG, option("--limit", "The first N by store time.", metavar="N", min=1)]
OpenDlq = Annotated[bool, option("--open-dlq", "Make dead letters readable (perm 6) at once if they are not.")]


class SourceOptions(OptionGroup, frozen=True):
    """Where messages come from (topics or a group's dead letters, on a broker or in a store directory), and which part
    of them."""

    topics: Annotated[Texts, Value.TOPIC, option("--topic", "Messages of this topic. Repeatable.")] = None
    dlq: Annotated[str | None, Value.GROUP, option("--dlq", "The group's dead letters.")] = None
    open_dlq: OpenDlq = False
    store: Annotated[
        str | None, Value.FILE, option("--store", "Read from a store directory, not from a broker.", metavar="DIR")
    ] = None
    archive: Annotated[
        str | None,
        Value.FILE,
        option("--archive", "Read from an archive of spark-archive; without --topic, all of it.", metavar="DIR"),
    ] = None
    broker_name: Annotated[
        str | None, Value.NAME, option("--broker-name", "With --store: broker name, if the store does not say.")
    ] = None
    queues: Annotated[
        Texts, Value.NAME, option("--queue", "These queues only. Repeatable.", metavar="BROKER:QUEUE")
    ] = None
    start: StoredSince = None
    end: Before = None
    offsets: Annotated[
        str | None, option("--offsets", '{"topic":{"broker":{"0":[start,end]}}}, end not included.', metavar="JSON")
    ] = None
    from_group: Annotated[
        str | None, Value.GROUP, option("--from-group", "Start at this group's committed offsets.")
    ] = None
    limit: Limit = None

    def between(self, now_ms: int, tell: Tell) -> TimeRange:
        """The range, as of ``time_range``."""
        return time_range(self.start, self.end, now_ms, "--from/--since", "--to-time/--until", tell=tell)


class SelectionOptions(ConditionOptions, frozen=True):
    """Which messages to take. All conditions must hold."""

    where: Annotated[
        str | None, option("--where", "Spark SQL over the columns of the rocketmq source.", metavar="SQL")
    ] = None
    reconsume_min: Annotated[int, option("--min-reconsume", "Consumed at least this often.", min=0)] = 0
    ids: Annotated[str | None, Value.FILE, option("--ids", "File of message ids, one a line.")] = None


class LetterOptions(ConditionOptions, frozen=True):
    """Which of a group's dead letters to take. All conditions must hold."""

    ids: Annotated[Texts, Value.ID, option("--id", "With this id. Repeatable: any of them.")] = None
    start: StoredSince = None
    end: Before = None

    def between(self, now_ms: int, tell: Tell) -> TimeRange:
        """The range, as of ``time_range``."""
        return time_range(self.start, self.end, now_ms, "--from/--since", "--to-time/--until", tell=tell)


class RewriteOptions(OptionGroup, frozen=True):
    """What to change in each message."""

    set_properties: Annotated[Texts, option("--set-property", "Set this property. Repeatable.", metavar="K=V")] = None
    unset_properties: Annotated[
        Texts, Value.NAME, option("--unset-property", "Remove this property. Repeatable.", metavar="K")
    ] = None
    set_tag: Annotated[str | None, Value.NAME, option("--set-tag", "Set this tag.", metavar="TAG")] = None
    body_expr: Annotated[
        str | None, option("--body-expr", "The new body, from the source's columns.", metavar="SQL")
    ] = None


class DeliveryOptions(OptionGroup, frozen=True):
    """Where the messages go, in which order, and as what."""

    to: Annotated[
        str | None,
        Value.NAME,
        option(
            "--to",
            "Where to send. Dead letters: by default group, the group that failed; same: the origin topic.",
            metavar="group|same|topic:NAME|file:PATH",
        ),
    ] = None
    target_namesrv: Annotated[
        str | None, Value.BROKER_ADDR, option("--target-name-server", "Send to another cluster.")
    ] = None
    order: Annotated[
        str | None, Value.CHOICE, option("--order", "Keep the order within each source queue.", metavar="queue")
    ] = None
    transform: Annotated[
        str | None,
        Value.NAME,
        option(
            "--transform", "Python function from Arrow batch to Arrow batch; may drop rows.", metavar="MODULE:FUNCTION"
        ),
    ] = None
    new_ids: Annotated[bool, option("--new-ids", "New unique keys, for consumers that drop known ones.")] = False
    delay_level: Annotated[
        int, option("--delay-level", "Deliver with this delay level. Needs --at-least-once.", metavar="N", min=0)
    ] = 0
    at_least_once: Annotated[
        bool, option("--at-least-once", "With --delay-level: after a fault, some may be sent twice.")
    ] = False


class JobOptions(OptionGroup, frozen=True):
    """The job: whether it sends, its name, and where its plan and ledger are."""

    execute: Annotated[bool, option("--execute", "Send. Without it, the plan is only shown and kept.")] = False
    ledger: Ledger = None
    job: Annotated[str | None, Value.NAME, option("--job", "Name of the job; alone: a job already planned.")] = None
    resume: Annotated[bool, option("--resume", "Continue an interrupted job.")] = False


class PaceOptions(OptionGroup, frozen=True):
    """How fast the job sends, and how often it writes its ledger."""

    rate: Rate = None
    byte_rate: Annotated[float | None, option("--byte-rate", "Bytes a second.", metavar="N", min=1)] = None
    wave: Annotated[
        int | None,
        option("--wave", "Messages between two ledger entries. 50,000, or 10 s at --rate.", metavar="N", min=1),
    ] = None


class GuardOptions(OptionGroup, frozen=True):
    """What is left out, rejected or tried first, and what is checked afterwards."""

    dedup: Annotated[
        str | None,
        Value.CHOICE,
        option("--dedup", "Send only one of several equal messages.", metavar="id|key|origin-id|body"),
    ] = None
    dedup_keep: Annotated[str, Value.CHOICE, option("--dedup-keep", "Which of them to send.", metavar="first|last")] = (
        "first"
    )
    skip_redriven: Annotated[
        bool | None,
        option(
            "--skip-redriven/--no-skip-redriven",
            "Leave out messages that other jobs redrove. Default for dead letters.",
        ),
    ] = None
    redrives_max: Annotated[
        int, option("--max-redrives", "Reject dead letters that were redriven this often already.", min=1)
    ] = REDRIVES_MAX
    park_topic: Annotated[
        str | None, Value.TOPIC, option("--park-topic", "Send those to this topic instead of rejecting them.")
    ] = None
    failures_max: Annotated[
        str | None,
        Value.NUMBER,
        option("--max-failures", "Stop when more messages than this are rejected.", metavar="N|P%"),
    ] = None
    canary: Annotated[
        int, option("--canary", "Send N first, wait for their consumers, then send the rest.", metavar="N", min=0)
    ] = 0
    canary_wait_s: Annotated[
        float, Value.SECONDS, option("--canary-wait", "Longest wait for these consumers.", min=0)
    ] = 30.0
    audit: Annotated[
        bool | None, option("--audit/--no-audit", "Count the messages at the target. Default up to 1,000,000.")
    ] = None
    sample: Annotated[
        int, option("--sample", "Show N messages before and after the change.", metavar="N", min=0, max=20)
    ] = 0


class SparkOptions(OptionGroup, frozen=True):
    """The Spark that runs the job."""

    master: Annotated[str, option("--master", "Spark master.", metavar="URL")] = "local[*]"
    cores: Annotated[
        int | None, option("--cores", "Cores to use, of this machine or of the cluster.", metavar="N", min=1)
    ] = None
    driver_memory: Annotated[
        str, Value.NUMBER, option("--driver-memory", "Memory of Spark's driver.", metavar="SIZE")
    ] = "1g"
    java_home: Annotated[
        str | None, Value.FILE, option("--java-home", "Directory of Java 17 or newer.", metavar="DIR")
    ] = None
    spark_conf: Annotated[Texts, option("--spark-conf", "A setting of Spark. Repeatable.", metavar="K=V")] = None
    spark_log: Annotated[str | None, Value.FILE, option("--spark-log", "File for Spark's log.")] = None
