"""The frozen plan of a replay: which messages, their changes, and their target. In a plan, every "now", "latest" and
"-2h" is a number, so that a second attempt, a second driver or a run in a week reads the same messages. Its hash is the
job's identity."""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any

import msgspec

from rmqproto.errors import NotFoundError, StorageError, UsageError
from rmqproto.filters.message_conditions import MessageConditions
from rmqproto.wire.whole_types import whole
from rmqreplay.ledger.letters import Witness
from rmqreplay.plans.user_function import UserFunction
from rmqreplay.source.offset_ranges import OffsetRange, split_ranges, wave_slice
from rmqserver.store.disk.disk import OsDisk, storage_error
from rmqserver.store.disk.whole_files import replace_file

PLAN_VERSION = 2
PLAN_FILE = "plan.json"
JOB_NAME_LENGTH_MAX = 64
WAVE_MESSAGES_DEFAULT = 50_000
WAVE_S_AT_RATE = 10
"""A wave costs half a second in Spark, whatever its size. After a crash one wave is checked again."""

JOB_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class NothingSelectedError(NotFoundError):
    """There is no message in the range, or none that fits."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """The source of the messages: a live cluster, or store directories, whose broker is ``broker_name``."""

    name_server: str | None = None
    path: str | None = None
    broker_name: str | None = None


class Selection(MessageConditions, frozen=True, kw_only=True):
    """Filters in addition to the offset ranges; all must hold. ``where`` is SQL over the source's schema."""

    where: str | None = None


class AskedRanges(msgspec.Struct, frozen=True, kw_only=True):
    """The user's texts for the ranges, whose meaning changes with time. ``--resume`` compares them to check that a
    selection is the plan's."""

    topics: list[str] = []
    queues: list[str] = []
    start: str | None = None
    end: str | None = None
    offsets: str | None = None
    from_group: str | None = None


class Transform(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to each message. ``body_expression`` is SQL that gives the new body."""

    set_properties: dict[str, str] = {}
    unset_properties: list[str] = []
    set_tag: str | None = None
    body_expression: str | None = None
    function: UserFunction | None = None
    """Applied first: the others change what it returns."""
    new_ids: bool = False
    redrives_max: int | None = None
    """Messages that were already redriven this often are rejected instead of sent; None: no limit."""
    park_topic: str | None = None
    """The topic that takes those messages instead of the failures file."""
    delay_level: int = 0
    """A delayed message cannot be looked for, so it is sent at least once, not exactly once."""


def changing_options(transform: Transform) -> list[str]:
    """The options that a transform comes from, as the command spells them."""
    given: dict[str, object] = {
        "--set-property": transform.set_properties,
        "--unset-property": transform.unset_properties,
        "--set-tag": transform.set_tag is not None,
        "--body-expr": transform.body_expression is not None,
        "--transform": transform.function,
        "--new-ids": transform.new_ids,
        "--max-redrives": transform.redrives_max is not None,
        "--park-topic": transform.park_topic is not None,
        "--delay-level": transform.delay_level,
    }
    return [option for option, is_given in given.items() if is_given]


class TargetRule(msgspec.Struct, frozen=True, kw_only=True):
    """``kind``: same (the origin topic), topic, group (``%RETRY%<group>``) or file."""

    kind: str
    name: str = ""
    name_server: str | None = None
    topics: list[str] = []
    """Every topic that the rule can lead to, found while planning. A message for another topic is rejected."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a job will do. Its progress is in the ledger."""

    version: int = PLAN_VERSION
    job: str
    created_ms: int
    source: Source
    ranges: list[OffsetRange]
    selection: Selection = Selection()
    transform: Transform = Transform()
    target: TargetRule
    keep_order: bool = False
    """One task per source queue and one request in flight, so that a queue's messages keep their order."""
    wave_count: int = 1
    dedup: str | None = None
    dedup_keep: str = "first"
    skip_redriven: bool = False
    limit: int | None = None
    canary: int = 0
    canary_ends: dict[str, int] = {}
    """The first wave is sent alone and ends at these offsets (by ``queue_text``): ``canary`` messages, by store
    time."""
    shown: dict[str, Any] = {}
    """What the dry run counted; not part of the identity."""
    asked: AskedRanges = AskedRanges()
    """Not part of the identity."""
    witnesses: dict[str, Witness] = {}
    """By ``queue_text``: the messages are those that were planned if these are where they were. Not part of the
    identity; none in plans of earlier versions."""
    command: str = ""
    """The command line that made the plan, without secrets; not part of the identity."""

    @property
    def identity(self) -> str:
        """SHA-256 of everything that decides which messages are sent where."""
        fields = msgspec.to_builtins(self)
        for name in ("shown", "asked", "command", "witnesses"):
            del fields[name]
        return hashlib.sha256(msgspec.json.encode(fields, order="sorted")).hexdigest()

    @property
    def replay_job(self) -> str:
        """The job's part of every replay id. It is unique even if two ledgers have a job of the same name."""
        origin = msgspec.json.encode([self.job, self.created_ms, self.source, self.target.kind, self.target.name])
        return f"{self.job}~{hashlib.sha256(origin).hexdigest()[:12]}"

    @property
    def target_name_server(self) -> str:
        """The target's name servers. UsageError if neither target nor source names them."""
        found = self.target.name_server or self.source.name_server
        if found is None:
            raise UsageError("the target cluster is not named", hint="--target-name-server HOST:PORT")
        return found

    @property
    def offset_count(self) -> int:
        return sum(each.count for each in self.ranges)

    def wave(self, wave: int) -> list[OffsetRange]:
        if not self.canary_ends:
            return wave_slice(self.ranges, wave, self.wave_count)
        canary, rest = split_ranges(self.ranges, self.canary_ends)
        return canary if wave == 0 else wave_slice(rest, wave - 1, self.wave_count - 1)


def check_job_name(job: str) -> str:
    """UsageError if the name cannot be a directory name and part of a property."""
    if not JOB_NAME.fullmatch(job) or job.startswith(".") or len(job) > JOB_NAME_LENGTH_MAX:
        raise UsageError(
            f"{job!r} is not a job name", hint=f"letters, digits, _ . and -, at most {JOB_NAME_LENGTH_MAX} characters"
        )
    return job


def wave_messages_for(rate: float | None) -> int:
    """The default number of messages in a wave: with a rate, as many as take ten seconds."""
    return WAVE_MESSAGES_DEFAULT if rate is None else max(1, round(min(WAVE_MESSAGES_DEFAULT, rate * WAVE_S_AT_RATE)))


def wave_count_for(ranges: list[OffsetRange], wave_messages: int) -> int:
    return max(1, -(-sum(each.count for each in ranges) // wave_messages))


def save_plan(directory: str, plan: Plan) -> None:
    """Saves the plan with its hash; it is durable at return. StorageError."""
    document = {"hash": plan.identity, **msgspec.to_builtins(plan)}
    data = msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"
    path = os.path.join(directory, PLAN_FILE)
    try:
        replace_file(OsDisk(), path, data)
    except OSError as error:
        raise storage_error(error, "write", path) from None


def load_plan(directory: str) -> Plan | None:
    """The saved plan; None if there is none. StorageError if it is damaged, changed by hand, or of another version."""
    path = os.path.join(directory, PLAN_FILE)
    try:
        with open(path, "rb") as file:
            document = msgspec.json.decode(file.read(), type=dict[str, Any])
        claimed = document.pop("hash", None)
        plan = msgspec.convert(document, whole(Plan))
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise StorageError(f"{path}: not a plan: {error}") from None
    if plan.version != PLAN_VERSION:
        raise StorageError(f"{path}: plan version {plan.version} is not {PLAN_VERSION}")
    if plan.identity != claimed:
        raise StorageError(
            f"{path}: the plan was changed after it was written", hint="plan anew under another --job name"
        )
    return plan
