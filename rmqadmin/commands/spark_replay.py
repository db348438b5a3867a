"""``spark-replay``: dead letters and topics sent again, each message once. The work is ``spark_tools.replay``'s; here
are its flags, what a plan and a result look like, and progress on standard error."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from rmqadmin.call import Call
from rmqadmin.results import TIME, Result, Row, doc
from rmqproto.errors import RequestTimeoutError, UsageError

if TYPE_CHECKING:
    from rmqadmin.replay_progress import ProgressBar, ProgressLines
    from rmqproto.signing import Credentials
    from spark_tools.replay.canary import CanaryReport
    from spark_tools.replay.entry import Outcome, Runner
    from spark_tools.replay.job import RunOptions
    from spark_tools.replay.plan import Plan
    from spark_tools.replay.request import ReplayRequest
    from spark_tools.session import SessionOptions

Texts = list[str] | None


class RangeRow(Row, frozen=True):
    topic: Annotated[str, doc("source topic", key=True)]
    broker_name: Annotated[str, doc("source broker", key=True)]
    queue_id: Annotated[int, doc("source queue id", key=True)]
    start_offset: Annotated[int, doc("first queue offset looked at")]
    end_offset: Annotated[int, doc("queue offset after the last one looked at")]


class ReplayTotals(Row, frozen=True):
    job: Annotated[str, doc("name of the job: what --job and --resume take")]
    executed: Annotated[bool, doc("false after a dry run")]
    target: Annotated[str, doc("topics that messages go to, or the file")]
    selected: Annotated[int, doc("messages selected, by the dry run's count")]
    size_bytes: Annotated[int, doc("bodies and properties of the selected messages")]
    excluded: Annotated[int, doc("left out: redriven by other jobs, or duplicates")]
    directory: Annotated[str, doc("plan and ledger", wide=True)]
    skipped: Annotated[int | None, doc("left out by --transform", sparse=True)] = None
    duplicates: Annotated[int | None, doc("of those left out, by --dedup", sparse=True)] = None
    topics: Annotated[str | None, doc("messages by target topic, where there are several", sparse=True)] = None
    groups: Annotated[str | None, doc("groups that read the target, and get the messages", sparse=True)] = None
    would_reject: Annotated[int | None, doc("messages that could not be sent as they are", sparse=True)] = None
    reject_reasons: Annotated[str | None, doc("why", sparse=True)] = None
    oldest_ms: Annotated[int | None, TIME, doc("when the oldest selected message was stored", sparse=True)] = None
    newest_ms: Annotated[int | None, TIME, doc("when the newest selected message was stored", sparse=True)] = None
    tags: Annotated[str | None, doc("tags of the selected messages, with counts", sparse=True)] = None
    estimated_s: Annotated[float | None, doc("seconds that sending takes at --rate", sparse=True)] = None
    delivered: Annotated[int | None, doc("messages at the target now, by the ledger", sparse=True)] = None
    stored: Annotated[int | None, doc("messages sent and acknowledged by this run", sparse=True)] = None
    found: Annotated[int | None, doc("messages that were at the target already, after a fault", sparse=True)] = None
    rejected: Annotated[int | None, doc("messages that the target refuses", sparse=True)] = None
    failures_file: Annotated[str | None, doc("names every rejected message", sparse=True)] = None
    audited: Annotated[int | None, doc("messages that the audit found at the target", sparse=True)] = None
    missing: Annotated[int | None, doc("delivered by the ledger and not found by the audit", sparse=True)] = None
    doubled: Annotated[int | None, doc("copies that the audit found beyond the first", sparse=True)] = None
    seconds: Annotated[float | None, doc("duration of the run", sparse=True)] = None


class Replayed(Result, frozen=True):
    """The plan's ranges, and what a dry run counted or an execution did."""

    row_type: ClassVar[type[Row]] = RangeRow
    plan: Plan
    outcome: Outcome
    rate: float | None = None

    def rows(self) -> Sequence[RangeRow]:
        return [
            RangeRow(
                topic=each.queue.topic,
                broker_name=each.queue.broker_name,
                queue_id=each.queue.queue_id,
                start_offset=each.start,
                end_offset=each.end,
            )
            for each in self.plan.ranges
        ]

    def summary(self) -> ReplayTotals:
        shown, result = self.plan.shown, self.outcome.result
        target = self.plan.target
        audit = result.audit if result is not None else None
        return ReplayTotals(
            job=self.plan.job,
            executed=result is not None,
            target=target.name if target.kind == "file" else ", ".join(target.topics),
            selected=shown.get("selected", 0),
            size_bytes=shown.get("size_bytes", 0),
            excluded=result.excluded if result is not None else shown.get("excluded", 0),
            skipped=(result.skipped if result is not None else shown.get("skipped")) or None,
            duplicates=shown.get("duplicates") or None,
            topics=_counts(shown.get("topics", {})) if len(target.topics) > 1 else None,
            groups=", ".join(shown.get("groups", [])) or None,
            would_reject=shown.get("would_reject") or None,
            reject_reasons=_counts(shown.get("reject_reasons", {})),
            oldest_ms=shown.get("oldest_ms"),
            newest_ms=shown.get("newest_ms"),
            tags=_counts(shown.get("tags", {})),
            estimated_s=round(shown.get("selected", 0) / self.rate, 1) if self.rate and result is None else None,
            delivered=result.delivered_total if result is not None else None,
            stored=result.stored if result is not None else None,
            found=result.found if result is not None else None,
            rejected=result.rejected if result is not None else None,
            failures_file=result.failures_path if result is not None else None,
            audited=audit.found if audit is not None else None,
            missing=audit.missing if audit is not None else None,
            doubled=audit.doubled if audit is not None else None,
            seconds=round(result.seconds, 1) if result is not None else None,
            directory=self.outcome.directory,
        )

    def problem(self) -> str | None:
        result = self.outcome.result
        if result is None:
            return None
        if result.audit is not None and not result.audit.is_good:
            found = result.audit
            return f"the audit found {found.missing} missing, {found.doubled} doubled, {found.unexpected} unexpected"
        return f"{result.rejected} messages were rejected: {result.failures_path}" if result.rejected else None


def spark_replay(
    call: Call,
    topics: Annotated[Texts, typer.Option("--topic", metavar="TOPIC", help="Messages of this topic. Repeat.")] = None,
    dlq: Annotated[str | None, typer.Option("--dlq", metavar="GROUP", help="The group's dead letters.")] = None,
    open_dlq: Annotated[
        bool, typer.Option("--open-dlq", help="Make dead letters readable (perm 6) where they are not, at once.")
    ] = False,
    store: Annotated[
        str | None, typer.Option("--store", metavar="DIR", help="Read from a store directory, not from a broker.")
    ] = None,
    broker_name: Annotated[
        str | None, typer.Option("--broker-name", metavar="NAME", help="With --store: whose it is, if it does not say.")
    ] = None,
    queues: Annotated[Texts, typer.Option("--queue", metavar="BROKER:QUEUE", help="These queues only. Repeat.")] = None,
    start: Annotated[str | None, typer.Option("--from", metavar="TIME", help="Stored then or later.")] = None,
    end: Annotated[str | None, typer.Option("--to-time", metavar="TIME", help="Stored before.")] = None,
    offsets: Annotated[
        str | None,
        typer.Option("--offsets", metavar="JSON", help='{"topic":{"broker":{"0":[start,end]}}}, end not included.'),
    ] = None,
    from_group: Annotated[
        str | None, typer.Option("--from-group", metavar="GROUP", help="From this group's committed offsets on.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="The first N by store time.")] = None,
    tag: Annotated[str, typer.Option("--tag", metavar="EXPR", help="Tags: 'a || b'.")] = "*",
    keys: Annotated[Texts, typer.Option("--key", metavar="KEY", help="With this key. Repeat: with all.")] = None,
    properties: Annotated[
        Texts, typer.Option("--property", metavar="K=V", help="With this property. Repeat: with all.")
    ] = None,
    sql92: Annotated[str | None, typer.Option("--sql92", metavar="EXPR", help="A broker-side filter.")] = None,
    where: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="Spark SQL over the columns of the rocketmq source.")
    ] = None,
    reconsume_min: Annotated[int, typer.Option("--min-reconsume", min=0, help="Consumed this often at least.")] = 0,
    ids: Annotated[str | None, typer.Option("--ids", metavar="FILE", help="Message ids, one a line.")] = None,
    set_properties: Annotated[Texts, typer.Option("--set-property", metavar="K=V", help="Repeat.")] = None,
    unset_properties: Annotated[Texts, typer.Option("--unset-property", metavar="K", help="Repeat.")] = None,
    set_tag: Annotated[str | None, typer.Option("--set-tag", metavar="TAG")] = None,
    body_expr: Annotated[
        str | None, typer.Option("--body-expr", metavar="SQL", help="The new body, from the source's columns.")
    ] = None,
    to: Annotated[
        str, typer.Option("--to", metavar="same|topic:NAME|group|file:PATH", help="Where to; same is the origin topic.")
    ] = "same",
    target_namesrv: Annotated[
        str | None, typer.Option("--target-name-server", metavar="HOST:PORT", help="Another cluster.")
    ] = None,
    order: Annotated[
        str | None, typer.Option("--order", metavar="queue", help="Keep the order within each source queue.")
    ] = None,
    transform: Annotated[
        str | None,
        typer.Option(
            "--transform", metavar="MODULE:FUNCTION", help="Python: an Arrow batch in, one out; fewer rows: left out."
        ),
    ] = None,
    new_ids: Annotated[
        bool, typer.Option("--new-ids", help="New unique keys, for consumers that drop known ones.")
    ] = False,
    delay_level: Annotated[
        int, typer.Option("--delay-level", metavar="N", min=0, help="Consumers get them later. With --at-least-once.")
    ] = 0,
    at_least_once: Annotated[
        bool, typer.Option("--at-least-once", help="With --delay-level: after a fault, some may be sent twice.")
    ] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Send. Without it, the plan is shown and kept.")] = False,
    ledger: Annotated[
        str | None, typer.Option("--ledger", metavar="DIR", help="Plans and ledgers of all jobs.")
    ] = None,
    job: Annotated[
        str | None, typer.Option("--job", metavar="NAME", help="Name of the job; alone: a job planned.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted job.")] = False,
    rate: Annotated[float | None, typer.Option("--rate", metavar="N", min=0.1, help="Messages a second.")] = None,
    byte_rate: Annotated[float | None, typer.Option("--byte-rate", metavar="N", min=1, help="Bytes a second.")] = None,
    wave: Annotated[
        int | None,
        typer.Option(
            "--wave", metavar="N", min=1, help="Messages between two ledger entries. 50,000, or 10 s at --rate."
        ),
    ] = None,
    dedup: Annotated[
        str | None, typer.Option("--dedup", metavar="id|key|origin-id|body", help="One of several equal messages.")
    ] = None,
    dedup_keep: Annotated[str, typer.Option("--dedup-keep", metavar="first|last")] = "first",
    skip_redriven: Annotated[
        bool | None,
        typer.Option(
            "--skip-redriven/--no-skip-redriven", help="Leave out what other jobs redrove. Default with --dlq."
        ),
    ] = None,
    redrives_max: Annotated[int, typer.Option("--max-redrives", min=1, help="With --dlq: reject past this round.")] = 3,
    park_topic: Annotated[
        str | None, typer.Option("--park-topic", metavar="TOPIC", help="Takes those, instead of rejecting them.")
    ] = None,
    failures_max: Annotated[
        str | None, typer.Option("--max-failures", metavar="N|P%", help="Stop when more are rejected.")
    ] = None,
    canary: Annotated[
        int, typer.Option("--canary", metavar="N", min=0, help="Send N, see how their consumers fare, then the rest.")
    ] = 0,
    canary_wait_s: Annotated[
        float, typer.Option("--canary-wait", metavar="SECONDS", min=0, help="For so long at most.")
    ] = 30.0,
    audit: Annotated[
        bool | None, typer.Option("--audit/--no-audit", help="Count at the target. Default up to 1,000,000.")
    ] = None,
    sample: Annotated[int, typer.Option("--sample", metavar="N", min=0, max=20, help="Show N before and after.")] = 0,
    master: Annotated[str, typer.Option("--master", metavar="URL", help="Spark master.")] = "local[*]",
    cores: Annotated[
        int | None, typer.Option("--cores", metavar="N", min=1, help="So many of this machine, or of the cluster.")
    ] = None,
    driver_memory: Annotated[str, typer.Option("--driver-memory", metavar="SIZE")] = "1g",
    java_home: Annotated[str | None, typer.Option("--java-home", metavar="DIR", help="Java 17 or newer.")] = None,
    spark_conf: Annotated[Texts, typer.Option("--spark-conf", metavar="K=V", help="Repeat.")] = None,
    spark_log: Annotated[str | None, typer.Option("--spark-log", metavar="FILE", help="What Spark says.")] = None,
) -> Replayed:
    """Shows what would be sent, and sends it with --execute: each message once, whatever dies on the way.

    Needs pip install 'rmqadmin[spark]'.

    Examples:
      rmqadmin spark-replay -n 127.0.0.1:9876 --dlq billing --to same
      rmqadmin spark-replay --execute --job billing-1 -n 127.0.0.1:9876 --dlq billing --to topic:invoices_again --yes
      rmqadmin spark-replay --resume --job billing-1
    """
    from rmqadmin.replay_progress import progress_for_here
    from rmqadmin.times import parse_time
    from spark_tools.replay.entry import open_jobs, replay
    from spark_tools.replay.job import RunOptions
    from spark_tools.replay.plan import Selection, Transform, wave_messages_for
    from spark_tools.replay.request import ReplayRequest, default_ledger_root
    from spark_tools.replay.user_function import find_function
    from spark_tools.session import SessionOptions, check_installed

    check_installed()
    now_ms = call.now_ms()
    request: ReplayRequest | None = None
    if open_dlq:
        _open_dead_letters(call, dlq, store)
    if topics or dlq:
        request = ReplayRequest(
            name_server=None if store else ";".join(call.admin.namesrv_addrs),
            path=store,
            broker_name=broker_name,
            topics=topics or [],
            dlq_group=dlq,
            queues=queues or [],
            start_ms=parse_time(start, now_ms) if start else None,
            end_ms=parse_time(end, now_ms) if end else None,
            offsets=offsets,
            from_group=from_group,
            limit=limit,
            canary=canary,
            at_least_once=at_least_once,
            selection=Selection(
                tags=tag,
                keys=keys or [],
                properties=_pairs("--property", properties),
                where=where,
                reconsume_times_min=reconsume_min,
                ids=_read_ids(ids),
                sql92=sql92,
            ),
            transform=Transform(
                set_properties=_pairs("--set-property", set_properties),
                unset_properties=unset_properties or [],
                set_tag=set_tag,
                body_expression=body_expr,
                function=find_function(transform, os.getcwd()) if transform is not None else None,
                new_ids=new_ids,
                park_topic=park_topic,
                delay_level=delay_level,
                redrives_max=redrives_max if dlq and not to.startswith("file:") else None,
            ),
            to=to,
            target_name_server=target_namesrv or _target_of_store(call, store, to),
            keep_order=_keep_order(order),
            dedup=dedup,
            dedup_keep=dedup_keep,
            skip_redriven=skip_redriven,
            wave_messages=wave or wave_messages_for(rate),
            command=_command_line(call.credentials),
            credentials=call.credentials,
        )
    session = SessionOptions(
        master=master, cores=cores, driver_memory=driver_memory, java_home=java_home, log_path=spark_log,
        settings=_pairs("--spark-conf", spark_conf),
    )  # fmt: skip
    failures_count_max, failures_share_max = _failures_max(failures_max)
    limits = RunOptions(
        rate=rate, byte_rate=byte_rate, failures_max=failures_count_max, failures_share_max=failures_share_max,
        canary_wait_s=canary_wait_s, audit=audit, credentials=call.credentials,
    )  # fmt: skip
    progress = progress_for_here(rate)
    runner = _runner(call, ledger, session, limits, sample, progress)
    where = f" --ledger {ledger}" if ledger else ""
    try:
        outcome = replay(request, runner, execute=execute and not call.dry_run, resume=resume, job=job)
    except BaseException as error:  # Ctrl-C, too: what was begun can be gone on with
        for note in getattr(error, "__notes__", ()):
            call.notice(note)
        for name in open_jobs(runner.ledger_root or default_ledger_root()):
            call.notice(f"a job is not finished; to go on: rmqadmin spark-replay --resume --job {name}{where}")
        raise
    finally:
        progress.stop()
    if outcome.result is None:
        call.notice(f"nothing was sent; to do it: rmqadmin spark-replay --execute --job {outcome.plan.job}{where}")
    return Replayed(outcome.plan, outcome, rate)


def _runner(
    call: Call,
    ledger: str | None,
    session: SessionOptions,
    run: RunOptions,
    sample: int,
    progress: ProgressBar | ProgressLines,
) -> Runner:
    from spark_tools.replay.entry import Hooks, Runner

    job = ""

    def show(plan: Plan) -> None:
        nonlocal job
        job = plan.job
        progress.counts.planned = plan.shown.get("selected", 0)
        for text in _sample_lines(plan, sample):
            call.notice(text)

    def confirm(plan: Plan) -> None:
        what = plan.target.name if plan.target.kind == "file" else ", ".join(plan.target.topics)
        count = plan.shown.get("selected", 0)
        call.confirm(f"This sends {count} messages to {what} (job {plan.job}).", plan.job)

    def judge(report: CanaryReport) -> bool:
        progress.stop()
        call.notice(f"the canary was sent: {report}")
        if call.can_ask:
            call.confirm("This sends the rest.", job)
            return True
        return report.is_good

    hooks = Hooks(on_plan=show, confirm=confirm, on_progress=progress, on_service=progress.attach, on_canary=judge)
    return Runner(ledger_root=ledger, session=session, run=run, sample=sample, hooks=hooks)


OPEN_WAIT_S = 30.0
"""A broker tells its name servers of a changed topic at once, and again every 30 s."""


def _open_dead_letters(call: Call, group: str | None, store: str | None) -> None:
    """Asks, and sets perm 6 on every broker where the group's dead letters cannot be read."""
    from rmqadmin.commands.perm import plan_perm
    from rmqproto.names import dlq_topic
    from spark_tools.live import PERM_READ, PERM_WRITE

    if group is None or store is not None:
        raise UsageError("--open-dlq is for a group's dead letters on a broker (--dlq)")
    topic = dlq_topic(group)
    route = call.admin.topic_route(topic)
    closed = {each.broker_name for each in route.queue_datas if not each.perm & PERM_READ}
    addrs = [
        each.broker_addrs[0] for each in route.broker_datas if each.broker_name in closed and 0 in each.broker_addrs
    ]
    if not addrs:
        return
    if call.dry_run:
        call.notice(f"--dry-run: {topic} is not made readable on {', '.join(addrs)}")
        return
    call.confirm(f"This makes {topic} readable (perm 6) on {', '.join(addrs)}.", group)
    for addr in addrs:
        plan_perm(call.admin, addr, topic, PERM_READ | PERM_WRITE)[0].act()
    call.notice(f"{topic} is readable now (perm 6) on {', '.join(addrs)}")
    deadline = time.monotonic() + OPEN_WAIT_S
    while any(not each.perm & PERM_READ for each in call.admin.topic_route(topic).queue_datas):
        if time.monotonic() > deadline:
            raise RequestTimeoutError(f"the name server still says that {topic} cannot be read")
        time.sleep(0.1)


def _sample_lines(plan: Plan, count: int) -> list[str]:
    lines = []
    for each in plan.shown.get("samples", [])[:count]:
        before, after = each["properties_before"], each["properties_after"]
        lines.append(f"{each['from']} -> {each['to']} ({each['body_size_bytes']} bytes): {each['body']!r}")
        lines += [f"  - {name}={value!r}" for name, value in sorted(before.items()) if after.get(name) != value]
        lines += [f"  + {name}={value!r}" for name, value in sorted(after.items()) if before.get(name) != value]
    return lines


def _counts(found: dict[str, int]) -> str | None:
    return ", ".join(f"{name or '(none)'} {count}" for name, count in sorted(found.items())) or None


def _pairs(option: str, texts: Texts) -> dict[str, str]:
    found = {}
    for text in texts or []:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UsageError(f"{option} {text} is no NAME=VALUE")
        found[name] = value
    return found


def _read_ids(path: str | None) -> list[str]:
    if path is None:
        return []
    try:
        with open(path, encoding="utf-8") as file:
            return [line.strip() for line in file if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--ids {path}: {error}") from None


def _failures_max(text: str | None) -> tuple[int | None, float | None]:
    """A count, or a share of what the plan selects."""
    if text is None:
        return None, None
    if text.isdecimal():
        return int(text), None
    percent = text.removesuffix("%")
    if percent == text or not re.fullmatch(r"\d+(\.\d+)?", percent) or float(percent) > 100:
        raise UsageError(f"--max-failures {text} is neither a number of messages nor a percentage")
    return None, float(percent) / 100


def _keep_order(order: str | None) -> bool:
    if order not in (None, "queue"):
        raise UsageError(f"--order {order}: only the order within a queue can be kept (--order queue)")
    return order == "queue"


def _target_of_store(call: Call, store: str | None, to: str) -> str | None:
    """With --store, -n says where to send to."""
    if store is None or to.startswith("file:") or not call.is_namesrv_given:
        return None
    return ";".join(call.admin.namesrv_addrs)


def _command_line(credentials: Credentials | None) -> str:
    """For the plan, without the keys, however they were spelled."""
    line = " ".join(["rmqadmin", *sys.argv[1:]])
    for key in (credentials.access_key, credentials.secret_key) if credentials else ():
        line = line.replace(key, "***")
    return line
