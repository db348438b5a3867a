"""Static topics on the brokers: reads their mappings, carries out a plan, and writes the files that keep a mapping
before and after (``MQAdminUtils``, 5.5.0)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rmqadmin.core import targets
from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.changes import ChangeRow, FieldChange, action, differences
from rmqadmin.core.files import read_bytes, without_mark, write_file
from rmqadmin.core.names import check_nested
from rmqadmin.core.servers.broker_answers import ask_each
from rmqadmin.core.topics.static_mapping import Configs, detail_of, empty, epoch_of, logical_queues, plain
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.routes import (
    ClusterInfo,
    LogicQueueMappingItem,
    TopicConfigAndQueueMapping,
    TopicRemappingDetail,
)
from rmqproto.bodies.statistics import ConsumeOffset, TopicOffset
from rmqproto.errors import NotConnectedError, NotFoundError, ProtocolError, RefusedError, RocketMQError, UsageError
from rmqproto.queue_mapping import (
    OFFSET_MAX,
    MappingError,
    current_queues,
    item_at,
    logical_offset,
    mock_broker_name,
    next_item,
)
from rmqproto.wire import fastjson

if TYPE_CHECKING:
    from rmqadmin.core.servers.broker_answers import Answers

BLOCK_COUNT = 10_000
"""The logical offsets of a moved queue begin at a multiple of this, so that messages still being written before the
move have room."""


# --- which brokers ---------------------------------------------------------------------------------------------------


def meant_names(info: ClusterInfo, brokers: str | None, clusters: str | None) -> list[str]:
    """The broker names of ``-b`` or ``-c`` (a,b), else of the only cluster. UsageError, NotFoundError."""
    if brokers is None and clusters is None:
        clusters = targets.only_cluster(info)
    targets.check_one_of(brokers, clusters)
    table, wanted = (
        (info.broker_addr_table, brokers) if brokers is not None else (info.cluster_addr_table, clusters or "")
    )
    found: list[str] = []
    for name in dict.fromkeys(part.strip() for part in wanted.split(",") if part.strip()):
        if name not in table:
            raise targets.not_there("broker" if brokers is not None else "cluster", name, table)
        found += [name] if brokers is not None else info.cluster_addr_table[name]
    if not found:
        raise NotFoundError("Find none brokers, do nothing")
    return sorted(set(found))


def master_addrs(info: ClusterInfo, names: Iterable[str]) -> dict[str, str]:
    """The masters of brokers. NotFoundError if one has none: a mapping is written to all of them or to none."""
    found = {}
    for name in names:
        broker = info.broker_addr_table.get(name)
        if broker is None or broker.master_addr is None:
            raise NotFoundError(f"Can't find addr for broker {name}", hint="Its master has to be up.")
        found[name] = broker.master_addr
    return found


# --- reading ---------------------------------------------------------------------------------------------------------


def read_configs(admin: AdminClient, info: ClusterInfo, topic: str, answers: Answers | None = None) -> Configs:
    """The configuration of the topic on every broker that knows it. Raises the first error of a master: without its
    part, a mapping is not known. ``answers`` records the errors, and knows who is silent."""
    masters = {name: broker.master_addr for name, broker in info.broker_addr_table.items() if broker.master_addr}

    def read(addr: str) -> TopicConfigAndQueueMapping | None:
        return targets.unless_gone(lambda: admin.static_topic(addr, topic))

    def ask(name: str) -> TopicConfigAndQueueMapping | None:
        return read(masters[name]) if answers is None else answers.ask(masters[name], read)

    names = sorted(masters)
    found = zip(names, ask_each(ask, names), strict=True)
    return {name: config for name, config in found if config is not None}


def logical_ends(
    topic: str, configs: Configs, ends: Mapping[MessageQueue, TopicOffset]
) -> dict[MessageQueue, TopicOffset]:
    """Where logical queues begin and end, from the ends of the physical queues of their mapping items
    (``convertPhysicalTopicStats``). MappingError if the brokers do not agree on the mapping."""
    found = {}
    for logical_id, queue in logical_queues(configs).items():
        oldest, newest = item_at(queue.items, 0), item_at(queue.items, OFFSET_MAX)
        first = ends.get(MessageQueue(topic, oldest.bname, oldest.queue_id))
        last = ends.get(MessageQueue(topic, newest.bname, newest.queue_id))
        if first is None or last is None:
            continue
        scope = detail_of(queue.broker_name, configs[queue.broker_name]).scope
        found[MessageQueue(topic, mock_broker_name(scope), logical_id)] = TopicOffset(
            min_offset=logical_offset(oldest, first.min_offset),
            max_offset=logical_offset(newest, last.max_offset),
            last_update_timestamp=last.last_update_timestamp,
        )
    return found


def logical_progress(
    topic: str,
    configs: Configs,
    ends: Mapping[MessageQueue, TopicOffset],
    offsets: Mapping[MessageQueue, ConsumeOffset],
) -> dict[MessageQueue, ConsumeOffset]:
    """Where a group stands in logical queues, from the ends of their physical queues and the group's offsets there; -1
    if it has none. A group that has consumed all of a mapping item stands at the start of the next one.

    mqadmin (``convertPhysicalConsumeStats``) shows the physical offset instead of the logical one.
    """
    found = {}
    queues = logical_queues(configs)
    for logical, end in logical_ends(topic, configs, ends).items():
        progress = found[logical] = ConsumeOffset(broker_offset=end.max_offset)
        items = queues[logical.queue_id].items
        for item in reversed(items):
            place = MessageQueue(topic, item.bname, item.queue_id)
            entry = offsets.get(place)
            if entry is not None and entry.consumer_offset >= 0 and item.logic_offset >= 0:
                following = next_item(items, item)
                if following is not None and place in ends and entry.consumer_offset >= ends[place].max_offset:
                    progress.consumer_offset = progress.pull_offset = following.logic_offset
                else:
                    progress.consumer_offset = logical_offset(item, entry.consumer_offset)
                    progress.pull_offset = logical_offset(item, entry.pull_offset)
                progress.last_timestamp = entry.last_timestamp
                break
    return found


def completed(plan: TopicRemappingDetail, info: ClusterInfo) -> TopicRemappingDetail:
    """The plan with the other brokers of its clusters, which are told that they have none of its queues."""
    configs = dict(plan.broker_config_map)
    total = max(detail_of(name, config).total_queues for name, config in configs.items())
    for names in info.cluster_addr_table.values():
        if not configs.keys().isdisjoint(names):
            for name in names:
                configs.setdefault(name, empty(plan.topic, name, epoch=plan.epoch, total_queues=total))
    done: TopicRemappingDetail = msgspec.structs.replace(plan, broker_config_map=dict(sorted(configs.items())))
    return done


# --- files -----------------------------------------------------------------------------------------------------------


def write_mapping(plan: TopicRemappingDetail, *, after: bool) -> str:
    """Writes a mapping to mqadmin's folder, in its format. StorageError."""
    path = Path(tempfile.gettempdir(), f"{plan.topic}-{plan.epoch}.{'after' if after else 'before'}")
    write_file(path, fastjson.dumps(plan))
    return str(path)


def load_mapping(path: str, topic: str) -> TopicRemappingDetail:
    """Reads a file of ``write_mapping``. UsageError, MappingError."""
    try:
        data = without_mark(read_bytes(path.strip()))
        plan = fastjson.loads_untrusted(data, TopicRemappingDetail)
    except ProtocolError as error:
        raise UsageError(f"{path} is not a mapping of a static topic: {error}") from None
    check_nested(path.strip(), fastjson.loads_untrusted(data, dict), TopicRemappingDetail)
    if not plan.broker_config_map:
        raise MappingError(f"{path} names no broker")
    epoch_of(topic, plan.broker_config_map)
    logical_queues(plan.broker_config_map)
    return plan


# --- carrying out ----------------------------------------------------------------------------------------------------


def rows_of(
    plan: TopicRemappingDetail,
    before: Mapping[str, TopicConfigAndQueueMapping],
    addrs: Mapping[str, str],
    *,
    done: bool,
) -> list[ChangeRow]:
    """What a plan changes, one row per broker."""
    rows = []
    for name, config in plan.broker_config_map.items():
        old = before.get(name)
        changes: list[FieldChange] = differences(None if old is None else _fields(name, old), _fields(name, config))
        rows.append(ChangeRow(target=addrs[name], action=action(old, changes), changes=changes, done=done, error=None))
    return rows


def _fields(name: str, config: TopicConfigAndQueueMapping) -> dict[str, object]:
    detail = detail_of(name, config)
    return {
        "readQueueNums": config.read_queue_nums,
        "writeQueueNums": config.write_queue_nums,
        "epoch": detail.epoch,
        "totalQueues": detail.total_queues,
        "queues": {str(logical_id): queue_id for logical_id, queue_id in current_queues(detail).items()},
    }


class MappingWriter:
    """Writes mappings to masters, up to the first failure: the file ``after`` then repairs them."""

    def __init__(self, admin: AdminClient, addrs: Mapping[str, str], after: str | None, *, force: bool):
        self._admin = admin
        self._addrs = addrs
        self._after = after
        self._force = force
        self._written: dict[str, None] = {}

    def update(self, plan: TopicRemappingDetail) -> None:
        for name in plan.broker_config_map:
            self._put(plan, name)

    def remap(self, plan: TopicRemappingDetail) -> None:
        """Moves queues. First the new leaders start to accept messages. Then the old ones stop, which fixes where the
        offsets of the new mapping items begin. Then the new leaders and all other brokers are told these offsets."""
        for name in (*plan.broker_to_map_in, *plan.broker_to_map_out):
            self._put(plan, name)
        for name in plan.broker_to_map_out:
            self._decide_offsets(plan, name)
        others = [name for name in plan.broker_config_map if name not in plan.broker_to_map_in]
        for name in (*plan.broker_to_map_in, *(name for name in others if name not in plan.broker_to_map_out)):
            self._put(plan, name)

    def _put(self, plan: TopicRemappingDetail, name: str) -> None:
        config = plan.broker_config_map[name]
        try:
            self._admin.create_static_topic(
                self._addrs[name], plain(config), detail_of(name, config), force=self._force
            )
        except RocketMQError as error:
            if not isinstance(error, RefusedError | NotConnectedError):
                self._written[name] = None  # it may have taken the mapping, and not have said so
            if self._after is not None and self._written:
                has = f"{', '.join(self._written)} may have the new mapping"
                error.hint = f"{has}: apply it to all with -mf {self._after} -fr true."
            raise
        self._written[name] = None

    def _decide_offsets(self, plan: TopicRemappingDetail, name: str) -> None:
        """Sets where the mapping items begin that follow those ending on one broker."""
        ends = self._admin.topic_stats(self._addrs[name], plan.topic).offset_table
        for logical_id, items in detail_of(name, plan.broker_config_map[name]).hosted_queues.items():
            if len(items) < 2 or items[-1].logic_offset > 0:
                continue
            old, new = items[-2:]
            end = ends.get(MessageQueue(plan.topic, old.bname, old.queue_id))
            if end is None:
                raise MappingError(f"{name} does not say where queue {old.queue_id} of the topic ends")
            begun = LogicQueueMappingItem(
                bname=new.bname,
                gen=new.gen,
                logic_offset=rounded_up(logical_offset(old, end.max_offset)),
                queue_id=new.queue_id,
            )
            for one in (name, new.bname):
                detail_of(one, plan.broker_config_map[one]).hosted_queues[logical_id] = [*items[:-1], begun]


def rounded_up(offset: int) -> int:
    """Where the mapping item after one that ended at ``offset`` begins (``blockSeqRoundUp``): half a block on."""
    blocks, rest = divmod(offset, BLOCK_COUNT)
    return (blocks + (1 if rest < BLOCK_COUNT // 2 else 2)) * BLOCK_COUNT


# --- a whole change --------------------------------------------------------------------------------------------------


MakePlan = Callable[[Configs, list[str]], TopicRemappingDetail]
"""Makes a plan from the present mapping and the names of the chosen brokers."""

PutPlan = Callable[[MappingWriter, TopicRemappingDetail], None]


def change_mapping(
    admin: AdminClient,
    topic: str,
    make_plan: MakePlan,
    put: PutPlan,
    *,
    brokers: str | None,
    clusters: str | None,
    map_file: str | None,
    force: bool,
    dry_run: bool,
    now_ms: int,
) -> tuple[list[ChangeRow], list[str]]:
    """Plans and carries out a change of a static topic; one row per broker, and the files that keep the mapping before
    and after. A dry run writes no files. Raises the first error of a broker, after which nothing more is written.
    ``map_file``: writes this file's mapping instead of a new one."""
    info = admin.cluster_info()
    names = meant_names(info, brokers, clusters)
    before = read_configs(admin, info, topic)
    files: list[str] = []
    if map_file is not None:
        plan = load_mapping(map_file, topic)
    else:
        plan = make_plan(before, names)
        if not dry_run:
            epoch = epoch_of(topic, before) if before else now_ms
            old = TopicRemappingDetail(broker_config_map=before, epoch=epoch, topic=topic)
            files = [write_mapping(old, after=False), write_mapping(plan, after=True)]
    plan = completed(plan, info)
    addrs = master_addrs(info, plan.broker_config_map)
    if not dry_run:
        put(MappingWriter(admin, addrs, files[-1] if files else map_file, force=force), plan)
    return rows_of(plan, before, addrs, done=not dry_run), files
