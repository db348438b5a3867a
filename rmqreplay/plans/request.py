"""A user's request, and its conversion to a plan: groups to topics, times to offsets, names to queues. It reads the
source cluster or store, sends nothing and needs no Spark."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import PERM_READ
from rmqproto.errors import NotFoundError, UsageError
from rmqproto.filters.message_conditions import compile_pattern, parse_path
from rmqproto.names import dlq_topic, group_in_topic
from rmqproto.times import check_order
from rmqreplay.plans.plan import (
    WAVE_MESSAGES_DEFAULT,
    AskedRanges,
    NothingSelectedError,
    Plan,
    Selection,
    Source,
    TargetRule,
    Transform,
    changing_options,
    check_job_name,
)  # fmt: skip
from rmqreplay.sending.redrive import check_target_topic, check_transform, parse_target
from rmqreplay.source.archive_manifest import is_archive, load_manifest
from rmqreplay.source.live import ClusterAccess, LiveCluster, checked_sql92
from rmqreplay.source.offset_ranges import OffsetRange
from rmqreplay.source.queue_ranges import EARLIEST, LATEST, WantedRanges, Where, nested, resolve

DEDUP_KINDS = ("id", "key", "origin-id", "body")
DEDUP_KEEPS = ("first", "last")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest(ClusterAccess):
    """Times are ms since the epoch. ``skip_redriven`` None means yes with ``dlq_group`` and a target other than a file,
    else no."""

    name_server: str | None = None
    path: str | None = None
    """A store directory, or an archive."""
    broker_name: str | None = None
    topics: list[str] = field(default_factory=list)
    dlq_group: str | None = None
    queues: list[str] = field(default_factory=list)
    """``BROKER:QUEUE``; empty: all."""
    start_ms: int | None = None
    end_ms: int | None = None
    start_text: str | None = None
    """``start_ms`` as the user wrote it: ``-2h`` is another time when the job is resumed, but the same selection."""
    end_text: str | None = None
    offsets: list[OffsetRange] | None = None
    """Exactly these; no times and no ``from_group`` then."""
    after: Mapping[MessageQueue, int] = field(default_factory=dict)
    """Starts there in these queues: other jobs have sent what precedes."""
    from_group: str | None = None
    """Starts at this group's committed offsets."""
    limit: int | None = None
    canary: int = 0
    selection: Selection = field(default_factory=Selection)
    transform: Transform = field(default_factory=Transform)
    to: str | None = None
    """None: ``group`` for dead letters."""
    target_name_server: str | None = None
    at_least_once: bool = False
    """Gives up the promise of no doubles, to allow features that rule it out: a delay level."""
    keep_order: bool = False
    dedup: str | None = None
    dedup_keep: str = "first"
    skip_redriven: bool | None = None
    job: str | None = None
    wave_messages: int = WAVE_MESSAGES_DEFAULT
    command: str = ""


_NO_HOME = "/nonexistent/home"


def check_ledger_root(root: str) -> str:
    """The directory, for a job that writes there. UsageError if it is the default one of a user without a home."""
    if root.startswith(_NO_HOME):
        hint = "Set HOME or XDG_STATE_HOME to a directory, or give --ledger DIR."
        raise UsageError("no home directory is known for ledgers", hint=hint)
    return root


def default_ledger_root() -> str:
    """The default directory, under the XDG state directory. For a user without a home, one that is not there."""
    home = os.path.expanduser("~")  # "~": neither HOME nor an entry in passwd
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(_NO_HOME if home == "~" else home, ".local", "state")
    return os.path.join(state, "rmqadmin", "replay")


def freeze(request: ReplayRequest, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> Plan:
    """The plan, without the parts that only a dry run can count. UsageError if the request makes no sense;
    NotFoundError if it selects nothing."""
    topics = _topics(request)
    target = _target(request)
    _check(request, topics, target)
    created_ms = now_ms()
    check_order(request.start_ms, request.end_ms, created_ms)
    ranges, source, not_searched = _resolve(request, topics)
    if not ranges:
        raise NothingSelectedError(f"{', '.join(topics)}: no message in this range")
    return Plan(
        job=check_job_name(_default_job_name(topics, created_ms) if request.job is None else request.job),
        created_ms=created_ms, source=source, ranges=ranges,
        selection=_selection(request), transform=request.transform, target=target, keep_order=request.keep_order,
        dedup=request.dedup, dedup_keep=request.dedup_keep, skip_redriven=_skips_redriven(request, target),
        limit=request.limit, canary=request.canary, asked=_asked(request, topics), command=request.command,
        shown={"not_searched": not_searched},
    )  # fmt: skip


def difference(plan: Plan, request: ReplayRequest) -> str | None:
    """The option in which the request differs from the plan, as the command spells it; None if they agree. Only options
    that decide which messages go where are compared. Options whose time or offset changes with the clock are compared
    as they were written."""
    asked = _asked(request, _topics(request))
    target = _target(request)
    is_same_target = request.to is None or (target.kind, target.name) == (plan.target.kind, plan.target.name)
    same = {
        "source": (plan.source.name_server, plan.source.path)
        == (request.name_server, os.path.abspath(request.path) if request.path else None),
        "topic or group": asked.topics == plan.asked.topics,
        "selection": _is_same_selection(plan, request, asked),
        "change": request.transform == plan.transform,
        "target": is_same_target and target.name_server == plan.target.name_server,
        "order": request.keep_order == plan.keep_order,
    }  # fmt: skip
    return next((name for name, is_same in same.items() if not is_same), None)


def _is_same_selection(plan: Plan, request: ReplayRequest, asked: AskedRanges) -> bool:
    selection, planned = _selection(request), plan.selection
    if asked.start is not None and asked.start == plan.asked.start:
        selection = replace(selection, start_time_ms=planned.start_time_ms)
    if asked.end is not None and asked.end == plan.asked.end:
        selection = replace(selection, end_time_ms=planned.end_time_ms)
    skips = _skips_redriven(request, plan.target)
    return (
        selection == planned
        and (asked.queues, asked.from_group) == (plan.asked.queues, plan.asked.from_group)
        and request.offsets == (None if plan.asked.offsets is None else parse_offsets(plan.asked.offsets))
        and (request.limit, request.canary, request.dedup, request.dedup_keep, skips)
        == (plan.limit, plan.canary, plan.dedup, plan.dedup_keep, plan.skip_redriven)
    )


def _asked(request: ReplayRequest, topics: list[str]) -> AskedRanges:
    offsets = None  # as ``parse_offsets`` reads them
    if request.offsets is not None:
        offsets = json.dumps(nested({each.queue: [each.start, each.end] for each in request.offsets}))
    return AskedRanges(
        topics=sorted({*topics}), queues=sorted({*request.queues}), start=request.start_text, end=request.end_text,
        offsets=offsets, from_group=request.from_group,
    )  # fmt: skip


def _skips_redriven(request: ReplayRequest, target: TargetRule) -> bool:
    is_redrive = request.dlq_group is not None and target.kind != "file"
    return is_redrive if request.skip_redriven is None else request.skip_redriven


def _topics(request: ReplayRequest) -> list[str]:
    topics = list(request.topics)
    if request.dlq_group is not None:
        if (group := group_in_topic(request.dlq_group)) is not None:
            raise UsageError(f"{request.dlq_group} is a topic: name the group, {group}")
        topics.append(dlq_topic(request.dlq_group))
    if not topics and request.path is not None and is_archive(request.path):
        topics = list(dict.fromkeys(queue.topic for queue in load_manifest(request.path).ranges))
    if not topics:
        raise UsageError("nothing is selected", hint="--topic TOPIC or --dlq GROUP says what to replay")
    return topics


def _target(request: ReplayRequest) -> TargetRule:
    """The target; without one, the group that failed."""
    if request.to is None and (request.dlq_group is None or request.topics):
        raise UsageError("where should the messages go?", hint="--to topic:NAME; dead letters alone go to their group")
    return parse_target(request.to or "group", request.dlq_group, request.target_name_server)


def _check(request: ReplayRequest, topics: list[str], target: TargetRule) -> None:
    transform, is_file = request.transform, target.kind == "file"
    has_target_cluster, park_topic = request.target_name_server is not None, request.transform.park_topic
    has_times = request.start_ms is not None or request.end_ms is not None
    wrong = [
        ((request.name_server is None) == (request.path is None),
         "the messages come either from a cluster (-n) or from files (--store, --archive)", None),
        (target.kind == "topic" and target.name in topics and not has_target_cluster,
         f"{target.name} would be replayed into itself, endlessly", None),
        (target.kind == "same" and request.dlq_group is None and not has_target_cluster,
         "--to same sends a topic's messages back into it", "--to topic:NAME, or --target-name-server"),
        (is_file and transform != Transform(),
         "a file gets the messages unchanged", f"leave out {', '.join(changing_options(transform))}"),
        (request.path is not None and not is_file and not has_target_cluster,
         "files do not say where to send to", "--target-name-server HOST:PORT"),
        (request.offsets is not None and bool(has_times or request.from_group),
         "offsets, times or a group's position: only one of them can say where to begin and end", None),
        (request.dedup is not None and request.dedup not in DEDUP_KINDS,
         f"--dedup {request.dedup} is none of {', '.join(DEDUP_KINDS)}", None),
        (request.dedup_keep not in DEDUP_KEEPS,
         f"--dedup-keep {request.dedup_keep} is none of {', '.join(DEDUP_KEEPS)}", None),
        (park_topic is not None and transform.redrives_max is None,
         "--park-topic takes dead letters that were redriven too often: it needs --dlq", None),
        (park_topic is not None and park_topic in [*topics, target.name if target.kind == "topic" else None],
         f"--park-topic {park_topic} is where the messages come from, or go to anyway", None),
        (request.at_least_once and not transform.delay_level,
         "--at-least-once is for --delay-level: everything else is sent once", None),
        (bool(transform.delay_level) and target.kind == "group",
         "a delayed redrive to a group could not be watched for messages that come straight back",
         "--to same, or --to topic:NAME"),
        (bool(transform.delay_level and request.canary),
         "--canary waits for consumers to take its messages, and delayed ones come later", None),
        (bool(request.canary) and is_file, "--canary waits for consumers, and a file has none", None),
    ]  # fmt: skip
    for is_wrong, text, hint in wrong:
        if is_wrong:
            raise UsageError(text, hint=hint)
    for topic in filter(None, (target.name if target.kind == "topic" else None, park_topic)):
        check_target_topic(topic)
    check_transform(transform, at_least_once=request.at_least_once)
    checked_sql92(request.selection.sql92)
    for path in request.selection.json_values or ():
        parse_path(path)
    if request.selection.body_pattern:
        compile_pattern(request.selection.body_pattern)


def _resolve(request: ReplayRequest, topics: list[str]) -> tuple[list[OffsetRange], Source, list[str]]:
    """The ranges, their source, and ``LiveCluster.not_searched``."""
    wanted, not_searched = _wanted(request, topics), list[str]()
    if request.path is not None:
        from rmqreplay.source.archive_view import open_files  # a quarter of a redrive's imports, only for files

        with open_files(request.path, request.broker_name) as view:
            ranges = resolve(wanted, view).ranges
        source = Source(path=os.path.abspath(request.path), broker_name=view.broker_name)
    else:
        with request.cluster(request.name_server or "") as cluster:
            _require_readable(cluster, topics, request.dlq_group)
            ranges, not_searched = resolve(wanted, cluster).ranges, cluster.not_searched
        source = Source(name_server=request.name_server)
    return _only_queues(ranges, request.queues), source, not_searched


def _require_readable(cluster: LiveCluster, topics: list[str], dlq_group: str | None) -> None:
    """Checks that the topics are readable. Old brokers create dead-letter topics that are only writable. A group's
    first dead letter creates its topic."""
    for topic in topics:
        route = cluster.route(topic)
        if not route and dlq_group is not None and topic == dlq_topic(dlq_group):
            raise NotFoundError(
                f"group {dlq_group} has no dead letters", hint="`rmqadmin dlq ls` lists the groups that have some."
            )
        if route and not any(queue.perm & PERM_READ for queue, _ in route.values()):
            raise UsageError(
                f"{topic} cannot be read (perm 2)",
                hint=f"redrives take --open-dlq, and updateTopicPerm -c CLUSTER -t '{topic}' -p 6 opens any topic; "
                "spark-replay --store reads the store's files",
            )


def parse_offsets(text: str) -> list[OffsetRange]:
    """The ranges in ``{"topic":{"broker":{"0":[start,end]}}}``, the end not included. UsageError."""
    try:
        found = [
            OffsetRange(MessageQueue(topic, broker_name, int(queue_id)), int(start), int(end))
            for topic, brokers in json.loads(text).items()
            for broker_name, queues in brokers.items()
            for queue_id, (start, end) in queues.items()
        ]
        if any(each.start < EARLIEST or each.end < LATEST for each in found):
            raise ValueError
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise UsageError(
            "--offsets is not valid", hint='{"topic":{"broker-a":{"0":[100,200]}}}, the end not included'
        ) from None
    return found


def _wanted(request: ReplayRequest, topics: list[str]) -> WantedRanges:
    """The queues and ends of the request. UsageError for offsets of a topic that is not selected."""
    if request.offsets is None:
        start = Where(keyword="earliest")
        if request.start_ms is not None:
            start = Where(timestamp_ms=request.start_ms)
        elif request.from_group is not None:
            start = Where(keyword="group", group=request.from_group)
        if request.after:  # times are a filter, too
            start = Where(keyword="earliest", table=nested(request.after))
        end = Where(keyword="latest") if request.end_ms is None else Where(timestamp_ms=request.end_ms)
        return WantedRanges(topics=topics, start=start, end=end, missing_timestamp="latest")
    strangers = {each.queue.topic for each in request.offsets} - set(topics)
    if strangers:
        raise UsageError(f"--offsets names {min(strangers)}, which is not selected")
    starts = nested({each.queue: each.start for each in request.offsets})
    ends = nested({each.queue: each.end for each in request.offsets})
    assigned = {topic: {name: [*ids] for name, ids in brokers.items()} for topic, brokers in starts.items()}
    return WantedRanges(
        assigned=assigned, start=Where(keyword="earliest", table=starts), end=Where(keyword="latest", table=ends)
    )


def _only_queues(ranges: list[OffsetRange], queues: list[str]) -> list[OffsetRange]:
    if not queues:
        return ranges
    wanted = set()
    for text in queues:
        broker, _, number = text.rpartition(":")
        if not broker or not number.isdecimal():
            raise UsageError(f"--queue {text} is not of the form BROKER:QUEUE")
        wanted.add((broker, int(number)))
    found = [each for each in ranges if (each.queue.broker_name, each.queue.queue_id) in wanted]
    if ranges and not found:
        there = ", ".join(sorted({f"{each.queue.broker_name}:{each.queue.queue_id}" for each in ranges}))
        raise NotFoundError(
            f"none of --queue {', '.join(queues)} has a message in this range", hint=f"These have: {there}."
        )
    return found


def _selection(request: ReplayRequest) -> Selection:
    """The selection with the request's times. If a clock was set back, offsets found by time may include a few older
    messages; the filter is exact."""
    return replace(request.selection, start_time_ms=request.start_ms, end_time_ms=request.end_ms)


def _default_job_name(topics: list[str], created_ms: int) -> str:
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(created_ms // 1000)) + f".{created_ms % 1000:03}Z"
    what = re.sub(r"[^A-Za-z0-9_.-]+", "-", topics[0]).strip("-.")[:40]
    return f"{what or 'replay'}-{stamp}"
