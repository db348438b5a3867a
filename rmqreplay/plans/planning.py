"""From a request's ranges to a plan of what would be sent, with everything resolved, counted and saved. Nothing is
sent."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress

import msgspec

from rmqproto.errors import NotFoundError, UsageError
from rmqproto.names import group_in_topic, retry_topic
from rmqproto.wording import counted
from rmqreplay.ledger.letter_source import LiveLetters, letters_of
from rmqreplay.ledger.sent_before import SentBefore, sent_before
from rmqreplay.plans.plan import NothingSelectedError, Plan, save_plan, wave_count_for
from rmqreplay.run.consumers import TO_SAME, refuse_orderly_group
from rmqreplay.run.engine import Engine, TaskReport, WaveSpec
from rmqreplay.sending.target import read_fences
from rmqreplay.source.live import LiveCluster, OpenCluster
from rmqreplay.source.offset_ranges import OffsetSet, queue_text, split_ranges
from rmqserver.store.disk.disk import storage_error


def check_source(plan: Plan, open_cluster: OpenCluster) -> None:
    """RefusedError if the source's brokers do not support the filter that a Spark job of the plan uses."""
    if plan.selection.sql92 is None or plan.source.name_server is None:
        return
    with open_cluster(plan.source.name_server) as cluster:
        cluster.check_sql92(plan.ranges, plan.selection.sql92)


def check_target(plan: Plan, open_cluster: OpenCluster) -> None:
    """Checks the target as far as possible before messages are read, in some milliseconds. NotFoundError for a topic
    that does not exist, StorageError for one that is not both writable and readable, UsageError for a group that
    consumes orderly, and for a topic that the messages come from."""
    if plan.target.kind == "file":
        return
    topics = _target_topics(plan)
    with open_cluster(plan.target_name_server) as cluster:
        if plan.target.kind == "group":
            refuse_orderly_group(cluster, plan.target.name)
            if not cluster.route(retry_topic(plan.target.name)):
                raise NotFoundError(
                    f"the target topic {retry_topic(plan.target.name)} does not exist: no consumer of the group has"
                    " been connected",
                    hint=f"start one; or {TO_SAME}",
                )
        read_fences(cluster, topics)
        _refuse_itself(plan, topics, cluster, open_cluster)


def _target_topics(plan: Plan) -> list[str]:
    """The topics that are sent to, as far as they are known. With ``--to same``, messages of a group's topic say which
    they are."""
    target = plan.target
    if target.topics or target.kind != "same":
        return target.topics or [target.name if target.kind == "topic" else retry_topic(target.name)]
    return sorted({each.queue.topic for each in plan.ranges if group_in_topic(each.queue.topic) is None})


def _refuse_itself(plan: Plan, topics: list[str], target: LiveCluster, open_cluster: OpenCluster) -> None:
    """UsageError for a topic to be sent to that has a message of the source where the source has it: it is the source,
    under another address or archived, or a copy."""
    ends = {each.queue: each.end for each in plan.ranges if each.queue.topic in topics}
    if not ends:
        return
    there = LiveLetters(target.admin)
    with letters_of(plan, open_cluster) as source:
        for queue, end in ends.items():
            letter = source.letter((queue, end - 1))
            if letter is not None and letter == there.letter((queue, end - 1)):
                raise UsageError(
                    f"{queue.topic} would be replayed into itself: the target has {queue_text(queue)} up to {end}",
                    hint="--to topic:NAME; or --until, to send only what the target has deleted",
                )


def plan_replay(plan: Plan, engine: Engine, directory: str, *, wave_messages: int, sample: int = 0) -> Plan:
    """The plan with everything resolved and counted, written to ``directory``: what an execution will do. NotFoundError
    if nothing is selected, or a target topic does not exist."""
    sent = SentBefore()
    if plan.skip_redriven:
        with letters_of(plan, engine.open_cluster) as source:
            sent = sent_before(os.path.dirname(os.path.abspath(directory)), plan, source, strict=False)
    if plan.limit is not None:
        first = list(engine.first_places(plan, plan.limit, sent.places))
        if first:
            wave_messages = plan.limit
        plan = msgspec.structs.replace(plan, ranges=first or (plan.ranges if sent.places.count else []))
    if not plan.ranges:
        raise NothingSelectedError("nothing is selected: the queues hold no message in this range")
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise storage_error(error, "write", directory) from None
    excluded = engine.duplicates(plan) if plan.dedup else OffsetSet()
    duplicate_count = excluded.count
    excluded.update(sent.places)
    plan = _in_waves(plan, engine, excluded, wave_messages)
    report = engine.run(plan, plan.ranges, WaveSpec(
        job=plan.replay_job, wave=0, wanted=plan.ranges, excluded=excluded.to_json(), target=plan.target,
        transform=plan.transform, sample=sample,
    ))  # fmt: skip
    topics = sorted(report.topics) if plan.target.kind != "file" else []
    if not (report.selected or report.excluded or report.skipped):
        with suppress(OSError):  # it is not empty if there is another plan of this name
            os.rmdir(directory)
        raise NothingSelectedError(f"nothing is selected: none of {counted(plan.offset_count, 'message')} fits")
    plan = msgspec.structs.replace(
        plan,
        target=msgspec.structs.replace(plan.target, topics=topics),
        witnesses=report.witnesses,
        shown={
            **plan.shown,
            "selected": report.selected, "size_bytes": report.size_bytes, "excluded": report.excluded,
            "skipped": report.skipped, "duplicates": duplicate_count, "topics": report.topics, "tags": report.tags,
            "oldest_ms": report.oldest_ms, "newest_ms": report.newest_ms, "would_reject": len(report.failures),
            "reject_reasons": dict(Counter(each.remark for each in report.failures)),
            "samples": report.samples[:sample],
            "rejections": msgspec.to_builtins(report.failures[:sample]),
            **_readers(plan, topics, report, engine.open_cluster),
            "redriven_by": sent.by_job, "perhaps_sent": sent.unproven,
        },
    )  # fmt: skip
    save_plan(directory, plan)
    return plan


def _in_waves(plan: Plan, engine: Engine, excluded: OffsetSet, wave_messages: int) -> Plan:
    """The plan cut into waves. A canary's first wave takes each queue up to its last chosen message, so that every
    queue's order is kept."""
    if not plan.canary:
        return msgspec.structs.replace(plan, wave_count=wave_count_for(plan.ranges, wave_messages))
    ends: dict[str, int] = {}
    for each in engine.first_places(plan, plan.canary, excluded):
        ends[queue_text(each.queue)] = max(each.end, ends.get(queue_text(each.queue), 0))
    rest = split_ranges(plan.ranges, ends)[1]
    rest_count = wave_count_for(rest, wave_messages) if rest else 0
    return msgspec.structs.replace(plan, canary_ends=ends, wave_count=(1 if ends else 0) + rest_count)


def _readers(plan: Plan, topics: list[str], report: TaskReport, open_cluster: OpenCluster) -> dict[str, list[str]]:
    """``groups``: those that get the messages, all that read a target topic. ``groups_again``: those among them for
    which the dead letters are no news, because they read the origin topic, and did not fail. Errors as for
    ``check_target``, because an execution would fail with them."""
    if not topics:
        return {"groups": [], "groups_again": []}
    with open_cluster(plan.target_name_server) as cluster:
        read_fences(cluster, topics)
        readers = {topic: set(cluster.groups(topic)) for topic in topics}
    failed = {group_in_topic(topic) for topic in plan.asked.topics}
    again = set[str]()
    if failed != {None}:
        again = {group for topic in topics if topic in report.origins for group in readers[topic]} - failed
    return {"groups": sorted(set().union(*readers.values())), "groups_again": sorted(again)}
