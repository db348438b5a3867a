"""Load: how fast a cluster sends, reads and delivers."""

from typing import Annotated

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.command_options import OF_CONTEXT
from rmqadmin.cli.options.common_options import OptionGroup, Value, argument, option
from rmqadmin.core.load.lane_plans import (
    AddressedPlace,
    LoadTopic,
    PlannedLoad,
    load_plans,
    planned_load,
    process_count_for,
    pull_lanes,
    send_lanes,
)
from rmqadmin.core.load.load_plan import LanePlan, LoadQueue
from rmqadmin.core.load.load_rows import DeliveryFigures, LoadFigures
from rmqadmin.core.load.load_run import BegunLoad, LoadRun, LoadSetting
from rmqadmin.core.load.templates import STAMP_SIZE_BYTES
from rmqproto.errors import UsageError
from rmqproto.wire.frames import FRAME_SIZE_MAX_BYTES

BENCH_TOPIC = "rmqadmin_bench"
BENCH_GROUP = "rmqadmin_bench"

LoadTopicName = Annotated[str, Value.TOPIC, argument(f"Topic; default: {BENCH_TOPIC}.", metavar="[TOPIC]")]
BodySize = Annotated[int, option("--size-bytes", "Size of each body.", metavar="N", min=0, max=FRAME_SIZE_MAX_BYTES)]
SendRate = Annotated[
    float | None, option("--rate", "Messages a second; default: as many as possible.", metavar="N", min=0.1)
]
ConnectionCount = Annotated[int, option("--connections", "Number of connections.", metavar="N", min=1)]
ProcessCount = Annotated[
    int | None, option("--processes", "Processes; default: half of the processors.", metavar="N", min=1)
]


class TimeOptions(OptionGroup, frozen=True):
    """How long the load lasts, and how often it reports."""

    duration_s: Annotated[float, option("--duration", "Seconds to measure.", metavar="S", min=0.1)] = 10.0
    warm_up_s: Annotated[float, option("--warm-up", "Seconds before that, not measured.", metavar="S", min=0)] = 1.0
    interval_s: Annotated[float, option("--interval", "Seconds between two rows.", metavar="S", min=0.05)] = 1.0


class TopicOptions(OptionGroup, frozen=True):
    """Whether the topic is created and removed."""

    create: Annotated[bool, option("--create", "Create the topic if it does not exist.")] = False
    remove: Annotated[bool, option("--remove", "Delete it at the end if --create made it.")] = False
    queue_nums: Annotated[int, option("--queues", "Queues on each broker if it is created.", metavar="N", min=1)] = 8
    cluster: Annotated[
        str | None, OF_CONTEXT, Value.CLUSTER, option("-c", "--clusterName", "Create it in this cluster.")
    ] = None

    def check(self) -> None:
        if self.remove and not self.create:
            raise UsageError("--remove removes only what --create made", hint="Remove other topics with deleteTopic.")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a command's options ask of a load. ``senders`` and ``pullers`` are numbers of connections. With stamped
    messages, each queue has its own puller, which waits there."""

    senders: int = 0
    pullers: int = 0
    processes: int | None = None
    size_bytes: int | None = None
    in_flight: int = 1
    batch_size: int = 1
    rate: float = 0.0
    is_stamped: bool = False
    repeats: bool = False
    tag: str = ""
    has_keys: bool = False


def load_topic(call: Call, name: str, made: TopicOptions, *, sends: bool) -> LoadTopic:
    """The topic. UsageError for the system's own topics. Before sending to a topic that is in use, the user must type
    its name, as for ``Call.confirm``."""
    made.check()
    topic = LoadTopic(call.admin, name.strip(), made.cluster, made.queue_nums, makes=made.create)
    if not sends:
        return topic
    topic.refuse_systems_own()
    use = topic.use()
    if call.dry_run:
        return topic
    if use is not None and name != BENCH_TOPIC and (use.message_count or use.groups):
        call.confirm(f"This floods the topic {name}, which has {use}.", name)
    call.permission.check()
    return topic


def load_run(call: Call, topic: LoadTopic, made: TopicOptions, time: TimeOptions, wanted: Wanted) -> LoadRun:
    settings = call.settings

    def begin() -> BegunLoad:
        topic.make()
        lanes, places = lanes_of(call, topic, wanted)
        count = min(len(lanes), wanted.processes or process_count_for(len(lanes)))
        plans = load_plans(
            lanes, count, wanted.rate, topic=topic.name, group=BENCH_GROUP, size_bytes=wanted.size_bytes or 0,
            in_flight=wanted.in_flight, batch_size=wanted.batch_size, duration_s=time.duration_s,
            warm_up_s=time.warm_up_s, interval_s=time.interval_s, timeout_s=settings.setting("timeout_s").value,
            is_stamped=wanted.is_stamped, repeats=wanted.repeats, tag=wanted.tag, has_keys=wanted.has_keys,
            **settings.access(),
        )  # fmt: skip
        addrs = sorted({addr for addr, _ in places})
        setting = LoadSetting(
            topic.name, addrs, len(places), len(lanes), count, wanted.in_flight, wanted.batch_size, wanted.size_bytes
        )
        return BegunLoad(setting, plans)

    return LoadRun(begin, topic.remove if made.remove else lambda: None)


def dry_run(call: Call, topic: LoadTopic, wanted: Wanted) -> PlannedLoad:
    if topic.is_to_be_made():
        return PlannedLoad([], f"the topic {topic.name} would be made in {topic.cluster()}, and its queues used")
    return planned_load(lanes_of(call, topic, wanted)[0])


def lanes_of(call: Call, topic: LoadTopic, wanted: Wanted) -> tuple[list[LanePlan], list[AddressedPlace]]:
    places = topic.places()
    lanes = send_lanes(places, wanted.senders) if wanted.senders else []
    if pullers := len(places) if wanted.is_stamped else wanted.pullers:
        readable = []  # with the queue offsets where each queue begins and ends now
        for addr, place in places:
            end = call.admin.max_offset(addr, topic.name, place.queue_id)
            begin = end if wanted.is_stamped else call.admin.min_offset(addr, topic.name, place.queue_id)
            readable.append((addr, LoadQueue(place.queue_id, begin, end)))
        lanes += pull_lanes(readable, pullers)
    return lanes, places


def bench_send(
    call: Call,
    time: TimeOptions,
    made: TopicOptions,
    topic: LoadTopicName = BENCH_TOPIC,
    size_bytes: BodySize = 128,
    connections: ConnectionCount = 8,
    in_flight: Annotated[
        int, option("--in-flight", "Requests in flight on each connection.", metavar="N", min=1, max=4096)
    ] = 1,
    batch_size: Annotated[int, option("--batch", "Messages in each request.", metavar="N", min=1, max=1024)] = 1,
    rate: SendRate = None,
    tag: Annotated[str, Value.NAME, option("--tag", "Tag of the messages.", metavar="TAG")] = "",
    has_keys: Annotated[bool, option("--keys", "Give each message its own key.")] = False,
    processes: ProcessCount = None,
) -> LoadFigures | PlannedLoad:
    """Shows a row per interval: messages a second, and how long requests took. Every message has its own unique key;
    queues are taken in turn. Ctrl-C ends it with the figures so far. With --rate, a request's time counts from when it
    was due. A topic that already has messages or groups is flooded only after its name is typed, or with --yes.

      rmqadmin bench send --create --remove --duration 10
      rmqadmin -o csv bench send LoadTopic --connections 64 --size-bytes 1024 --duration 60
      rmqadmin bench send LoadTopic --connections 4 --in-flight 64 --rate 20000
      rmqadmin bench send LoadTopic --batch 32 --dry-run
    """
    wanted = Wanted(
        senders=connections, processes=processes, size_bytes=size_bytes, in_flight=in_flight, batch_size=batch_size,
        rate=rate or 0.0, tag=tag, has_keys=has_keys,
    )  # fmt: skip
    used = load_topic(call, topic, made, sends=True)
    if call.dry_run:
        return dry_run(call, used, wanted)
    return LoadFigures(load_run(call, used, made, time, wanted))


def bench_consume(
    call: Call,
    time: TimeOptions,
    topic: LoadTopicName = BENCH_TOPIC,
    connections: ConnectionCount = 8,
    batch_size: Annotated[int, option("--batch", "Messages asked for at once.", metavar="N", min=1, max=1024)] = 32,
    repeats: Annotated[bool, option("--repeat", "At the end of a queue, start it again instead of waiting.")] = False,
    processes: ProcessCount = None,
) -> LoadFigures:
    """Pulls every queue from its first message on and commits nothing: no group moves, and others get the same
    messages. Queues are shared out among the connections. Shows a row per interval: messages a second, and how long
    requests took. Ctrl-C ends it with the figures so far.

      rmqadmin bench consume LoadTopic --repeat --duration 10
      rmqadmin -o json bench consume LoadTopic --connections 4
    """
    made = TopicOptions()
    used = load_topic(call, topic, made, sends=False)
    wanted = Wanted(pullers=connections, processes=processes, batch_size=batch_size, repeats=repeats)
    return LoadFigures(load_run(call, used, made, time, wanted))


_IN_FLIGHT = 64
"""The most pending requests: a stalled broker gets no more."""


def bench_latency(
    call: Call,
    time: TimeOptions,
    made: TopicOptions,
    topic: LoadTopicName = BENCH_TOPIC,
    size_bytes: BodySize = 128,
    rate: Annotated[float, option("--rate", "Messages a second.", metavar="N", min=0.1)] = 100.0,
) -> DeliveryFigures | PlannedLoad:
    """Sends at a low rate, and waits for each message with a long poll at the end of its queue. Measures from the
    moment when a message was due until it arrives here. Commits nothing: no group moves. Ctrl-C ends it with the
    figures so far. A topic that already has messages or groups is used only after its name is typed, or with --yes.

      rmqadmin bench latency --create --remove --queues 1
      rmqadmin -o json bench latency LoadTopic --rate 1000 --duration 30
    """
    if size_bytes < STAMP_SIZE_BYTES:
        raise UsageError(f"--size-bytes: a body that says when it was sent has {STAMP_SIZE_BYTES} bytes at least")
    used = load_topic(call, topic, made, sends=True)
    wanted = Wanted(
        senders=1, processes=1, size_bytes=size_bytes, in_flight=_IN_FLIGHT, rate=rate, is_stamped=True
    )  # fmt: skip
    if call.dry_run:
        return dry_run(call, used, wanted)
    return DeliveryFigures(load_run(call, used, made, time, wanted))
