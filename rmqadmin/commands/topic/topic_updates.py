"""Topics are created and changed. Settings that are not given stay as they are; mqadmin resets them to their defaults,
as ``--replace`` does."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Annotated

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.changing import change, line_each, undoable
from rmqadmin.cli.options.command_options import (
    PERM_METAVAR,
    ListFile,
    Masters,
    Replace,
    Topic,
    TopicNames,
    TrueFalse,
    as_bool,
    topic_names,
)
from rmqadmin.cli.options.common_options import Value, option
from rmqadmin.core.changes import KEEP, ChangeRow, Changes, FieldChange, Step, plan_each
from rmqadmin.core.results import ResultOf, Row, doc
from rmqadmin.core.servers.namesrv_tables import delete_steps, put_steps
from rmqadmin.core.topic_and_group_configs import (
    TOPICS,
    parse_attributes,
    plan_list,
    plan_perm,
    read_entries,
    read_topic,
    topic_config_text,
)
from rmqadmin.core.topics.stored_queues import unread_ids
from rmqadmin.core.topics.topic_changes import (
    OUT_OF_REACH,
    QUEUE_NUMS_DEFAULT,
    TopicWish,
    Unconsumed,
    configs_on,
    order_text,
    plan_everywhere,
    shrink_warnings,
    unconsumed,
    unconsumed_text,
)
from rmqadmin.core.units import parse_perm
from rmqproto.bodies.routes import TopicConfig
from rmqproto.codes import MESSAGE_TYPE, TopicMessageType
from rmqproto.errors import NotFoundError, UsageError
from rmqproto.names import ORDER_TOPIC_NAMESPACE, topic_problem
from rmqproto.wording import counted


def topic_create(
    call: Call,
    topics: TopicNames,
    where: Masters,
    queue_nums: Annotated[int, option("--queues", "Queues on each broker.", metavar="N", min=1)] = QUEUE_NUMS_DEFAULT,
    message_type: Annotated[TopicMessageType | None, option("--type", "What kind of messages it is for.")] = None,
    perm: Annotated[
        str | None, Value.CHOICE, option("--perm", "Read, write or both. Default: RW.", metavar=PERM_METAVAR)
    ] = None,
    attributes: Annotated[str | None, option("--attributes", "+name=value,+name=value.")] = None,
    if_not_exists: Annotated[
        bool, option("--if-not-exists", "Do not fail if a topic exists; it stays as it is.")
    ] = False,
) -> Changes:
    """On every master of the cluster, or on one broker. `updateTopic` changes a topic that exists.

    rmqadmin topic create NewTopic --queues 4 --if-not-exists
    rmqadmin topic create NewTopic OtherTopic --type FIFO --if-not-exists --dry-run
    """
    signed = parse_attributes(attributes)
    if message_type is not None:
        signed[f"+{MESSAGE_TYPE}"] = message_type.value
    bits = None if perm is None else parse_perm(perm)
    names = topic_names(topics)
    problem = next(filter(None, map(topic_problem, names)), None)
    if problem is not None:
        raise UsageError(problem, hint="Nothing was created.")
    addrs = where.addrs(call.admin)
    steps: list[Step] = []
    for name in names:
        there = [addr for addr in addrs if read_topic(call.admin, addr, name) is not None]
        if there and not if_not_exists:
            raise UsageError(
                f"there is a topic {name} already, on {', '.join(there)}: nothing was changed",
                hint="`rmqadmin updateTopic` changes it. With --if-not-exists this is not an error.",
            )
        new = [addr for addr in addrs if addr not in there]
        wish = TopicWish(
            topic=name, read_queue_nums=queue_nums, write_queue_nums=queue_nums, perm=bits, attributes=signed
        )
        planned = plan_everywhere(call.admin, new, wish).steps if new else []
        named = FieldChange("topic", None, name)
        steps += [msgspec.structs.replace(one, changes=[named, *one.changes]) for one in planned]
    return undoable(call, steps)


def update_topic(
    call: Call,
    topic: Topic,
    where: Masters,
    read_queue_nums: Annotated[
        int | None,
        option("-r", "--readQueueNums", f"Queues that consumers read. New topics: {QUEUE_NUMS_DEFAULT}.", min=0),
    ] = None,
    write_queue_nums: Annotated[
        int | None,
        option("-w", "--writeQueueNums", f"Queues that producers write. New topics: {QUEUE_NUMS_DEFAULT}.", min=0),
    ] = None,
    perm: Annotated[
        str | None,
        Value.CHOICE,
        option("-p", "--perm", "Read, write or both (4, 2, 6). New topics: RW.", metavar=PERM_METAVAR),
    ] = None,
    order: Annotated[
        TrueFalse | None, option("-o", "--order", "An ordered topic: its queues keep their order.")
    ] = None,
    unit: Annotated[TrueFalse | None, option("-u", "--unit", "A unit topic.")] = None,
    has_unit_sub: Annotated[TrueFalse | None, option("-s", "--hasUnitSub", "A unit subscribes to it.")] = None,
    attributes: Annotated[str | None, option("-a", "--attributes", "Changes: +name=value,+name=value,-name.")] = None,
    replace: Replace = False,
    shrink_to: Annotated[
        int | None, option("--shrink-to", "Go down to N queues, in steps that lose no message.", min=1, metavar="N")
    ] = None,
) -> Changes:
    """Settings that are not given stay as they are. --replace resets them to their defaults, as mqadmin does.

    Messages in queues past the read queues reach no consumer. --shrink-to takes write queues first, and read queues
    once every group has consumed what is in them; until then it says what it waits for, with status 1: repeat it.

      rmqadmin updateTopic -c DefaultCluster -t OrderTopic -r 4 -w 4
      rmqadmin updateTopic -b 127.0.0.1:10911 -t OrderTopic -p R --dry-run
      rmqadmin updateTopic -c DefaultCluster -t OrderTopic --shrink-to 2
      rmqadmin updateTopic -c DefaultCluster -t DelayTopic -a +message.type=DELAY
    """
    if shrink_to is not None:
        given = (read_queue_nums, write_queue_nums, perm, order, unit, has_unit_sub, attributes, replace or None)
        if any(value is not None for value in given):
            raise UsageError("--shrink-to stands alone: it changes only the numbers of queues")
        return shrink(call, where.addrs(call.admin), topic, shrink_to)
    wish = TopicWish(
        topic=topic,
        read_queue_nums=read_queue_nums,
        write_queue_nums=write_queue_nums,
        perm=None if perm is None else parse_perm(perm),
        order=as_bool(order),
        unit=as_bool(unit),
        unit_subscribed=as_bool(has_unit_sub),
        attributes=parse_attributes(attributes),
    )
    addrs = where.addrs(call.admin)
    plan = plan_everywhere(call.admin, addrs, wish, replace=replace)

    def text(done: list[str]) -> str:
        lines = ["".join(f"create topic to {addr} success.\n" for addr in addrs if addr in done)]
        if plan.order:
            of = "broker" if where.cluster_name is None else "cluster"
            line = f"set {of} orderConf. isOrder=true, orderConf=[{order_text(plan.order)}]\n"
            lines.insert(0 if where.cluster_name is None else 1, line)
        return "".join(lines) + topic_config_text(plan.config) + "\n"

    return change(call, plan.steps, text)


def update_topic_list(call: Call, filename: ListFile, where: Masters, replace: Replace = False) -> Changes:
    """The file holds a list of objects with topicName, readQueueNums, writeQueueNums, perm, order, topicFilterType,
    topicSysFlag and attributes, or what exportMetadata wrote. Fields that an object leaves out stay as they are.
    Attributes need no sign; -name deletes one. perm is 6 or "RW".

      rmqadmin updateTopicList -c DefaultCluster -f topics.json --dry-run
      rmqadmin updateTopicList -b 127.0.0.1:10911 -f topics.json
    """
    admin = call.admin
    entries = read_entries(filename.strip(), TOPICS)

    def plan(addr: str) -> Step:
        before = admin.all_topics(addr).topic_config_table
        warn = partial(shrink_warnings, admin, addr)
        return plan_list(TOPICS, entries, addr, before, admin.create_topics, replace=replace, warn=warn)

    line = "submit batch of topic config to {} success, please check the result later.\n"
    return change(call, plan_each(where.addrs(admin), plan), line_each(line))


def update_topic_perm(
    call: Call,
    topic: Topic,
    perm: Annotated[
        str, Value.CHOICE, option("-p", "--perm", "R or 4: read, W or 2: write, RW or 6: both.", metavar=PERM_METAVAR)
    ],
    where: Masters,
) -> Changes:
    """Each broker keeps its own queue counts, order and attributes; mqadmin takes them from the first broker.

    rmqadmin updateTopicPerm -c DefaultCluster -t OrderTopic -p RW
    rmqadmin updateTopicPerm -b 127.0.0.1:10911 -t OrderTopic -p 4 --dry-run
    """
    bits = parse_perm(perm)
    where.addrs(call.admin)  # errors in -b and -c come first
    route = call.admin.topic_route(topic)
    masters = {broker.master_addr: broker for broker in route.broker_datas if broker.master_addr}
    if where.broker_addr is not None:
        addrs = [addr for addr in masters if addr == where.broker_addr]
    else:
        addrs = [addr for addr, broker in masters.items() if broker.cluster == (where.cluster_name or "")]
    if not addrs:
        meant = f"the cluster {where.cluster_name}" if where.broker_addr is None else f"the broker {where.broker_addr}"
        raise NotFoundError(f"{meant} has no master of the topic {topic}", hint=f"Its masters: {', '.join(masters)}.")
    was: dict[str, TopicConfig] = {}

    def plan(addr: str) -> Step:
        step, was[addr] = plan_perm(call.admin, addr, topic, bits)
        return step

    def text(done: list[str]) -> str:
        lines = "".join(f"update topic perm from {was[addr].perm} to {bits} in {addr} success.\n" for addr in done)
        if where.broker_addr is None:
            return lines
        first = next(iter(was.values()))
        if first.perm == bits:
            return "new perm equals to the old one!\n"
        return f"{lines}{topic_config_text(msgspec.structs.replace(first, perm=bits, attributes={}))}.\n"

    return change(call, plan_each(addrs, plan), text)


class OrderMethod(StrEnum):
    GET = "get"
    PUT = "put"
    DELETE = "delete"


class OrderRow(Row, frozen=True):
    broker_name: Annotated[str, doc("broker name", key=True)]
    queue_nums: Annotated[int | None, doc("queues of the topic on it; none if the text is not a number")]


class OrderConf(ResultOf[OrderRow], frozen=True):
    """With -m get: the order configuration of a topic."""

    topic: str
    text: str

    def rows(self) -> Sequence[OrderRow]:
        parts = [part.partition(":") for part in self.text.split(";") if part]
        return [OrderRow(broker_name=name, queue_nums=int(num) if num.isdecimal() else None) for name, _, num in parts]

    def mqadmin_text(self) -> str:
        return f"get orderConf success. topic=[{self.topic}], orderConf=[{self.text}] "


def update_order_conf(
    call: Call,
    topic: Topic,
    method: Annotated[OrderMethod, option("-m", "--method", "What to do.")],
    order_conf: Annotated[
        str | None, option("-v", "--orderConf", "With put: broker-a:8;broker-b:8.", metavar="TEXT")
    ] = None,
) -> OrderConf | Changes:
    """Changes go to every name server of -n. updateTopic -o true writes this configuration too.

    rmqadmin updateOrderConf -t OrderTopic -m put -v broker-a:4
    rmqadmin updateOrderConf -t OrderTopic -m get
    rmqadmin updateOrderConf -t OrderTopic -m delete --dry-run
    """
    admin = call.admin
    if method is OrderMethod.GET:
        return OrderConf(topic, admin.kv_value(ORDER_TOPIC_NAMESPACE, topic))
    if method is OrderMethod.PUT:
        text = (order_conf or "").strip()
        if not text:
            raise UsageError("please set orderConf with option -v.", hint="For example -v broker-a:8;broker-b:8.")
        said = f"update orderConf success. topic=[{topic}], orderConf=[{text}]"
        return change(call, put_steps(admin, ORDER_TOPIC_NAMESPACE, topic, text), lambda _done: said)
    steps = delete_steps(admin, ORDER_TOPIC_NAMESPACE, topic)
    call.confirm(f"This deletes the order configuration of the topic {topic}.", topic)
    return change(call, steps, lambda _done: f"delete orderConf success. topic=[{topic}]")


class Shrunk(Changes, frozen=True):
    """What was changed, or would be. ``waits_for``: why that is not all."""

    waits_for: str | None = None
    is_dry_run: bool = False

    def remark(self) -> str | None:
        return self.waits_for if self.is_dry_run else super().remark()

    def problem(self) -> str | None:
        return super().problem() or (None if self.is_dry_run else self.waits_for)


def shrink(call: Call, addrs: Sequence[str], topic: str, nums: int) -> Shrunk:
    """Fewer write queues on the brokers that have more than ``nums``; on the others fewer read queues, once every group
    has consumed what is in the queues past them. Messages that consumers do not read, because read queues were taken
    before, get their read queues back first. NotFoundError if no broker has the topic; UsageError if it has fewer
    queues on each."""
    configs = configs_on(call.admin, addrs, topic)
    lost = {
        addr: unconsumed(call.admin, addr, config.topic_name, unread_ids(call.admin, addr, config))
        for addr, config in configs.items()
    }
    if not any(lost.values()):
        _require_shrink(configs, nums)
    waits, left = list[str](), list[Unconsumed]()
    wishes: dict[tuple[int, int], list[str]] = {}
    for addr, config in configs.items():
        reads, writes = config.read_queue_nums, config.write_queue_nums
        safe_reads = max(reads, min(nums, writes), *(one.queue_id + 1 for one in lost[addr]), 0)
        if writes <= nums and safe_reads == reads:
            continue
        wishes.setdefault((safe_reads, min(nums, writes)), []).append(addr)
        if lost[addr]:
            waits.append(f"{OUT_OF_REACH} with {reads} read queues: {unconsumed_text(lost[addr])}")
        if safe_reads > nums:
            waits.append(_PRODUCERS if writes > nums else _CONSUMERS)
    rows = list[ChangeRow]()
    for (reads, writes), of in wishes.items():
        rows += _changed(call, of, TopicWish(topic=topic, read_queue_nums=reads, write_queue_nums=writes))
    for addr in [addr for addr in configs if not any(addr in of for of in wishes.values())]:
        queue_ids = range(nums, configs[addr].read_queue_nums)
        left_here = unconsumed(call.admin, addr, topic, queue_ids)
        if left_here:
            fewer = FieldChange("read_queue_nums", queue_ids.stop, queue_ids.start)
            rows.append(ChangeRow(target=addr, action="wait", changes=[fewer], done=False, error=None))
        elif queue_ids:
            done, left_here = _shrunk_read_queues(call, addr, topic, queue_ids)
            rows += done
        left += left_here
    waits += _left_texts(left, topic, nums)
    if not rows:
        rows = [ChangeRow(target=addr, action=KEEP, changes=[], done=not call.dry_run, error=None) for addr in configs]
    waits_for = f"{'; '.join(dict.fromkeys(waits))}. The same command goes on from there" if waits else None
    return Shrunk(rows, waits_for=waits_for, is_dry_run=call.dry_run)


_PRODUCERS = "producers learn within 30 s that there are fewer write queues; only then read queues may go"
_CONSUMERS = "consumers learn within 30 s that there are more read queues; what is in them is waited for"


def _left_texts(left: list[Unconsumed], topic: str, nums: int) -> list[str]:
    """Why read queues cannot go yet."""
    texts = [f"not consumed yet: {unconsumed_text(left)}"] if left else []
    if any(one.group is None for one in left):
        texts.append(
            "until a group reads them, only their expiry ends this; to give them up now: rmqadmin updateTopic"
            f" -t '{topic}' -r {nums} -w {nums}, with -b or -c as here"
        )
    return texts


def _require_shrink(configs: Mapping[str, TopicConfig], nums: int) -> None:
    most = max(max(config.read_queue_nums, config.write_queue_nums) for config in configs.values())
    if nums > most:
        topic = next(iter(configs.values())).topic_name
        raise UsageError(
            f"--shrink-to {nums} is no shrink: {topic} has {counted(most, 'queue')} on a broker at most",
            hint=f"More queues: rmqadmin updateTopic -t '{topic}' -r {nums} -w {nums}, with -b or -c as here.",
        )


def _shrunk_read_queues(
    call: Call, addr: str, topic: str, queue_ids: range
) -> tuple[list[ChangeRow], list[Unconsumed]]:
    """Takes the read queues, whose messages are all consumed. If some came meanwhile, gives the queues back: what is
    left to consume."""
    rows = _changed(call, [addr], TopicWish(topic=topic, read_queue_nums=queue_ids.start))
    if call.dry_run:
        return rows, []
    left = unconsumed(call.admin, addr, topic, queue_ids)
    if left:
        rows += _changed(call, [addr], TopicWish(topic=topic, read_queue_nums=queue_ids.stop))
    return rows, left


def _changed(call: Call, addrs: Sequence[str], wish: TopicWish) -> list[ChangeRow]:
    steps = plan_everywhere(call.admin, addrs, wish).steps
    silent = [msgspec.structs.replace(step, warnings=[]) for step in steps]  # what is left there is consumed
    return list(change(call, silent, lambda _done: "").found)
