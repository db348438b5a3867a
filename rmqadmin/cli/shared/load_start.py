"""What the ``bench`` commands do before a load: check that the topic may be flooded and nothing forbids it, and make
the topic if asked to."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rmqadmin.cli.call import Call
from rmqadmin.cli.options.load_options import BENCH_GROUP, BENCH_TOPIC, TimeOptions, TopicOptions
from rmqadmin.core.load.lane_plans import (
    AddressedPlace,
    addressed_places,
    load_plans,
    process_count_for,
    pull_lanes,
    send_lanes,
)
from rmqadmin.core.load.load_plan import LanePlan, LoadQueue
from rmqadmin.core.load.load_run import BegunLoad, LoadRun, LoadSetting
from rmqadmin.core.load.load_topic import LoadTopic
from rmqadmin.core.load.planned_load import PlannedLoad, load_on_new_topic, planned_load


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
            credentials=settings.credentials(), tls=settings.tls_files(),
            address_map=settings.address_map(),
        )  # fmt: skip
        addrs = sorted({addr for addr, _ in places})
        setting = LoadSetting(
            topic.name, addrs, len(places), len(lanes), count, wanted.in_flight, wanted.batch_size, wanted.size_bytes
        )
        return BegunLoad(setting, plans)

    return LoadRun(begin, topic.remove if made.remove else lambda: None)


def dry_run(call: Call, topic: LoadTopic, wanted: Wanted) -> PlannedLoad:
    if topic.is_to_be_made():
        return load_on_new_topic(topic.name, topic.cluster())
    return planned_load(lanes_of(call, topic, wanted)[0])


def lanes_of(call: Call, topic: LoadTopic, wanted: Wanted) -> tuple[list[LanePlan], list[AddressedPlace]]:
    places = addressed_places(topic.queues())
    lanes = send_lanes(places, wanted.senders) if wanted.senders else []
    if pullers := len(places) if wanted.is_stamped else wanted.pullers:
        lanes += pull_lanes(_readable(call, topic.name, places, from_end=wanted.is_stamped), pullers)
    return lanes, places


def _readable(
    call: Call, topic: str, places: Sequence[AddressedPlace], *, from_end: bool
) -> list[AddressedPlace]:  # fmt: skip
    """The places with the queue offsets where each queue begins and ends now."""
    found = []
    for addr, place in places:
        end = call.admin.max_offset(addr, topic, place.queue_id)
        begin = end if from_end else call.admin.min_offset(addr, topic, place.queue_id)
        found.append((addr, LoadQueue(place.queue_id, begin, end)))
    return found
