"""The options of a redrive or replay, in groups: a command gets each group as one frozen value. The help says what each
option means; the groups show which belong together."""

from typing import Annotated

import typer

from rmqadmin.cli.options.command_options import LONG, Texts
from rmqadmin.cli.options.common_options import OptionGroup
from rmqadmin.cli.options.message_options import ConditionOptions, Rate, StoredSince
from rmqadmin.cli.options.value_markers import Value
from rmqadmin.core.messages.redriving import REDRIVES_MAX
from rmqproto.times import Tell, TimeRange, time_range

Before = Annotated[str | None, Value.TIME, typer.Option("--to-time", "--until", help="Stored before.")]
Ledger = Annotated[
    str | None, Value.FILE, typer.Option("--ledger", metavar="DIR", help="Directory of all jobs' plans and ledgers.")
]
Limit = Annotated[int | None, LONG, typer.Option("--limit", metavar="N", min=1, help="The first N by store time.")]
OpenDlq = Annotated[
    bool, typer.Option("--open-dlq", help="Make dead letters readable (perm 6) at once if they are not.")
]


class SourceOptions(OptionGroup, frozen=True):
    """Where messages come from (topics or a group's dead letters, on a broker or in a store directory), and which part
    of them."""

    topics: Annotated[Texts, Value.TOPIC, typer.Option("--topic", help="Messages of this topic. Repeatable.")] = None
    dlq: Annotated[str | None, Value.GROUP, typer.Option("--dlq", help="The group's dead letters.")] = None
    open_dlq: OpenDlq = False
    store: Annotated[
        str | None,
        Value.FILE,
        typer.Option("--store", metavar="DIR", help="Read from a store directory, not from a broker."),
    ] = None
    archive: Annotated[
        str | None,
        Value.FILE,
        typer.Option(
            "--archive", metavar="DIR", help="Read from an archive of spark-archive; without --topic, all of it."
        ),
    ] = None
    broker_name: Annotated[
        str | None,
        Value.NAME,
        typer.Option("--broker-name", help="With --store: broker name, if the store does not say."),
    ] = None
    queues: Annotated[
        Texts, Value.NAME, typer.Option("--queue", metavar="BROKER:QUEUE", help="These queues only. Repeatable.")
    ] = None
    start: StoredSince = None
    end: Before = None
    offsets: Annotated[
        str | None,
        typer.Option("--offsets", metavar="JSON", help='{"topic":{"broker":{"0":[start,end]}}}, end not included.'),
    ] = None
    from_group: Annotated[
        str | None, Value.GROUP, typer.Option("--from-group", help="Start at this group's committed offsets.")
    ] = None
    limit: Limit = None

    def between(self, now_ms: int, tell: Tell) -> TimeRange:
        """The range, as of ``time_range``."""
        return time_range(self.start, self.end, now_ms, "--from/--since", "--to-time/--until", tell=tell)


class SelectionOptions(ConditionOptions, frozen=True):
    """Which messages to take. All conditions must hold."""

    where: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="Spark SQL over the columns of the rocketmq source.")
    ] = None
    reconsume_min: Annotated[int, typer.Option("--min-reconsume", min=0, help="Consumed at least this often.")] = 0
    ids: Annotated[str | None, Value.FILE, typer.Option("--ids", help="File of message ids, one a line.")] = None


class LetterOptions(ConditionOptions, frozen=True):
    """Which of a group's dead letters to take. All conditions must hold."""

    ids: Annotated[Texts, Value.ID, typer.Option("--id", help="With this id. Repeatable: any of them.")] = None
    start: StoredSince = None
    end: Before = None

    def between(self, now_ms: int, tell: Tell) -> TimeRange:
        """The range, as of ``time_range``."""
        return time_range(self.start, self.end, now_ms, "--from/--since", "--to-time/--until", tell=tell)


class RewriteOptions(OptionGroup, frozen=True):
    """What to change in each message."""

    set_properties: Annotated[
        Texts, typer.Option("--set-property", metavar="K=V", help="Set this property. Repeatable.")
    ] = None
    unset_properties: Annotated[
        Texts, Value.NAME, typer.Option("--unset-property", metavar="K", help="Remove this property. Repeatable.")
    ] = None
    set_tag: Annotated[str | None, Value.NAME, typer.Option("--set-tag", metavar="TAG", help="Set this tag.")] = None
    body_expr: Annotated[
        str | None, typer.Option("--body-expr", metavar="SQL", help="The new body, from the source's columns.")
    ] = None


class DeliveryOptions(OptionGroup, frozen=True):
    """Where the messages go, in which order, and as what."""

    to: Annotated[
        str | None,
        Value.NAME,
        typer.Option(
            "--to",
            metavar="group|same|topic:NAME|file:PATH",
            help="Where to send. Dead letters: by default group, the group that failed; same: the origin topic.",
        ),
    ] = None
    target_namesrv: Annotated[
        str | None, Value.BROKER_ADDR, typer.Option("--target-name-server", help="Send to another cluster.")
    ] = None
    order: Annotated[
        str | None,
        Value.CHOICE,
        typer.Option("--order", metavar="queue", help="Keep the order within each source queue."),
    ] = None
    transform: Annotated[
        str | None,
        Value.NAME,
        typer.Option(
            "--transform",
            metavar="MODULE:FUNCTION",
            help="Python function from Arrow batch to Arrow batch; may drop rows.",
        ),
    ] = None
    new_ids: Annotated[bool, typer.Option("--new-ids", help="New unique keys, for consumers that drop known ones.")] = (
        False
    )
    delay_level: Annotated[
        int,
        typer.Option("--delay-level", metavar="N", min=0, help="Deliver with this delay level. Needs --at-least-once."),
    ] = 0
    at_least_once: Annotated[
        bool, typer.Option("--at-least-once", help="With --delay-level: after a fault, some may be sent twice.")
    ] = False


class JobOptions(OptionGroup, frozen=True):
    """The job: whether it sends, its name, and where its plan and ledger are."""

    execute: Annotated[bool, typer.Option("--execute", help="Send. Without it, the plan is only shown and kept.")] = (
        False
    )
    ledger: Ledger = None
    job: Annotated[
        str | None, Value.NAME, typer.Option("--job", help="Name of the job; alone: a job already planned.")
    ] = None
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted job.")] = False


class PaceOptions(OptionGroup, frozen=True):
    """How fast the job sends, and how often it writes its ledger."""

    rate: Rate = None
    byte_rate: Annotated[float | None, typer.Option("--byte-rate", metavar="N", min=1, help="Bytes a second.")] = None
    wave: Annotated[
        int | None,
        typer.Option(
            "--wave", metavar="N", min=1, help="Messages between two ledger entries. 50,000, or 10 s at --rate."
        ),
    ] = None


class GuardOptions(OptionGroup, frozen=True):
    """What is left out, rejected or tried first, and what is checked afterwards."""

    dedup: Annotated[
        str | None,
        Value.CHOICE,
        typer.Option("--dedup", metavar="id|key|origin-id|body", help="Send only one of several equal messages."),
    ] = None
    dedup_keep: Annotated[
        str, Value.CHOICE, typer.Option("--dedup-keep", metavar="first|last", help="Which of them to send.")
    ] = "first"
    skip_redriven: Annotated[
        bool | None,
        typer.Option(
            "--skip-redriven/--no-skip-redriven",
            help="Leave out messages that other jobs redrove. Default for dead letters.",
        ),
    ] = None
    redrives_max: Annotated[
        int, typer.Option("--max-redrives", min=1, help="Reject dead letters that were redriven this often already.")
    ] = REDRIVES_MAX
    park_topic: Annotated[
        str | None,
        Value.TOPIC,
        typer.Option("--park-topic", help="Send those to this topic instead of rejecting them."),
    ] = None
    failures_max: Annotated[
        str | None,
        Value.NUMBER,
        typer.Option("--max-failures", metavar="N|P%", help="Stop when more messages than this are rejected."),
    ] = None
    canary: Annotated[
        int,
        typer.Option(
            "--canary", metavar="N", min=0, help="Send N first, wait for their consumers, then send the rest."
        ),
    ] = 0
    canary_wait_s: Annotated[
        float, typer.Option("--canary-wait", metavar="SECONDS", min=0, help="Longest wait for these consumers.")
    ] = 30.0
    audit: Annotated[
        bool | None,
        typer.Option("--audit/--no-audit", help="Count the messages at the target. Default up to 1,000,000."),
    ] = None
    sample: Annotated[
        int, typer.Option("--sample", metavar="N", min=0, max=20, help="Show N messages before and after the change.")
    ] = 0


class SparkOptions(OptionGroup, frozen=True):
    """The Spark that runs the job."""

    master: Annotated[str, typer.Option("--master", metavar="URL", help="Spark master.")] = "local[*]"
    cores: Annotated[
        int | None, typer.Option("--cores", metavar="N", min=1, help="Cores to use, of this machine or of the cluster.")
    ] = None
    driver_memory: Annotated[
        str, Value.NUMBER, typer.Option("--driver-memory", metavar="SIZE", help="Memory of Spark's driver.")
    ] = "1g"
    java_home: Annotated[
        str | None, Value.FILE, typer.Option("--java-home", metavar="DIR", help="Directory of Java 17 or newer.")
    ] = None
    spark_conf: Annotated[
        Texts, typer.Option("--spark-conf", metavar="K=V", help="A setting of Spark. Repeatable.")
    ] = None
    spark_log: Annotated[str | None, Value.FILE, typer.Option("--spark-log", help="File for Spark's log.")] = None
