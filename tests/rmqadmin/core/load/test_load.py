"""A load: how it is shared out, its requests, and what is reported about it."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.core.load.lane_plans import load_plans, pull_lanes, send_lanes
from rmqadmin.core.load.load_plan import Histogram, LanePlan, LoadPlan, LoadQueue
from rmqadmin.core.load.load_rows import LoadFigures
from rmqadmin.core.load.load_run import BegunLoad, LoadRun, LoadSetting, new_run_id
from rmqadmin.core.load.templates import FIRST_NUMBER, STAMP_MARK, PullTemplate, send_template
from rmqproto.codes import RequestCode
from rmqproto.message import properties as props
from rmqproto.message.record import batch_parts_untrusted
from rmqproto.wire.command import decode_frame_untrusted
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.signing import SIGNATURE, signature

queue_counts = st.lists(st.integers(1, 9), min_size=1, max_size=4)


def places(counts: list[int]) -> list[tuple[str, LoadQueue]]:
    return [(f"10.0.0.{number}:1", LoadQueue(queue)) for number, count in enumerate(counts) for queue in range(count)]


def used(lanes: list[LanePlan]) -> list[tuple[str, int]]:
    return sorted((f"{lane.host}:{lane.port}", queue.queue_id) for lane in lanes for queue in lane.queues)


@given(queue_counts, st.integers(1, 20))
def test_each_sender_has_all_queues_of_its_broker(counts: list[int], connections: int) -> None:
    lanes = send_lanes(places(counts), connections)
    assert len(lanes) == max(connections, len(counts))
    assert {lane.host for lane in lanes} == {f"10.0.0.{number}" for number in range(len(counts))}
    for lane in lanes:
        assert len({queue.queue_id for queue in lane.queues}) == counts[int(lane.host[-1])]


@given(queue_counts, st.integers(1, 20))
def test_each_queue_is_pulled_by_one_unless_there_are_more_connections(counts: list[int], connections: int) -> None:
    wanted = places(counts)
    lanes = pull_lanes(wanted, connections)
    every = sorted((addr, place.queue_id) for addr, place in wanted)
    if connections >= len(every):
        assert len(lanes) == connections
        assert set(used(lanes)) == set(every)
    else:
        assert used(lanes) == every
        assert len(lanes) <= max(connections, len(counts))


@given(st.integers(1, 12), st.integers(1, 5))
def test_processes_share_out_connections_and_rate(lane_count: int, process_count: int) -> None:
    lanes = send_lanes(places([3]), lane_count)
    more: dict[str, Any] = {
        "topic": "T", "group": "G", "size_bytes": 1, "in_flight": 1, "batch_size": 1, "duration_s": 1.0,
        "warm_up_s": 0.0, "interval_s": 1.0, "timeout_s": 1.0,
    }  # fmt: skip
    plans = load_plans(lanes, process_count, 600.0, **more)
    assert len(plans) == min(lane_count, process_count)
    assert sum(len(plan.lanes) for plan in plans) == lane_count
    assert abs(sum(plan.rate for plan in plans) - 600) < 1e-6
    assert len({plan.run_id for plan in plans}) == len(plans)


KEYS = Credentials("user", "secret", "token")


def plan(**more: object) -> LoadPlan:
    fields = {
        "topic": "50%Topic", "group": "Group", "run_id": new_run_id(), "lanes": [], "size_bytes": 60, "in_flight": 1,
        "batch_size": 1, "rate": 0.0, "duration_s": 1.0, "warm_up_s": 0.0, "interval_s": 1.0, "timeout_s": 1.0,
    }  # fmt: skip
    return LoadPlan(**{**fields, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("credentials", [None, KEYS])
def test_a_message(credentials: Credentials | None) -> None:
    template = send_template(plan(credentials=credentials, tag="Tag", has_keys=True), 3)
    unique = set()
    for number in (FIRST_NUMBER, FIRST_NUMBER + 7, 1_987_654_321):
        command = decode_frame_untrusted(template.fill(number, 5))
        assert (command.code, command.opaque) == (RequestCode.SEND_MESSAGE_V2, number)
        assert (command.ext["b"], command.ext["e"], command.body) == ("50%Topic", "3", b"x" * 60)
        properties = props.parse(command.ext["i"])
        assert properties[props.TAGS] == "Tag"
        assert properties[props.KEYS].endswith(str(number))
        unique.add(properties[props.UNIQUE_KEY])
        if credentials is not None:
            assert command.ext[SIGNATURE] == signature(command.ext, command.body, credentials.secret_key)
    assert len(unique) == 3
    assert {len(key) for key in unique} == {32}


@pytest.mark.parametrize("credentials", [None, KEYS])
def test_a_batch(credentials: Credentials | None) -> None:
    template = send_template(plan(batch_size=40, credentials=credentials), 0)
    commands = [decode_frame_untrusted(template.fill(FIRST_NUMBER + number, 0)) for number in (1, 2)]
    parts = [part for command in commands for part in batch_parts_untrusted(command.body)]
    keys = {props.parse(part[2][2:].decode())[props.UNIQUE_KEY] for part in parts}
    assert len(parts) == len(keys) == 80
    assert {part[1] for part in parts} == {b"x" * 60}
    for command in commands:
        assert (command.code, command.ext["m"]) == (RequestCode.SEND_BATCH_MESSAGE, "true")
        if credentials is not None:
            assert command.ext[SIGNATURE] == signature(command.ext, command.body, credentials.secret_key)


def test_a_stamped_body_says_when_it_was_to_be_sent() -> None:
    wanted = plan(is_stamped=True)
    body = decode_frame_untrusted(send_template(wanted, 0).fill(FIRST_NUMBER, 1234)).body
    assert body == (STAMP_MARK + wanted.run_id.encode() + b" 0000001234").ljust(60, b"x")


@pytest.mark.parametrize("credentials", [None, KEYS])
def test_a_pull_has_the_offset_without_zeros_in_front(credentials: Credentials | None) -> None:
    template = PullTemplate(plan(batch_size=32, credentials=credentials), 2)
    for offset in (0, 7, 123_456_789_012):
        command = decode_frame_untrusted(template.fill(FIRST_NUMBER, offset))
        assert command.code == RequestCode.PULL_MESSAGE
        assert (command.ext["queueOffset"], command.ext["queueId"]) == (str(offset), "2")
        if credentials is not None:
            assert command.ext[SIGNATURE] == signature(command.ext, b"", credentials.secret_key)


lengths = st.lists(st.integers(0, 10**9), min_size=1, max_size=200)


def histogram(values: list[int]) -> Histogram:
    found = Histogram()
    for value in values:
        found.add(value)
    return found


@given(lengths, st.floats(1, 100))
def test_a_percentile_is_that_of_the_sorted_lengths(values: list[int], percent: float) -> None:
    (found,) = histogram(values).percentiles_ms((percent,))
    exact = sorted(values)[math.ceil(len(values) * percent / 100) - 1]
    assert found is not None
    assert exact * 0.999 - 1 <= found * 1000 <= exact


@given(lengths, lengths)
def test_merged_is_as_if_all_went_into_one(first: list[int], second: list[int]) -> None:
    merged = histogram(first)
    merged.merge(histogram(second))
    assert merged.counts == histogram(first + second).counts
    assert merged.total == len(first) + len(second)


def test_percentiles_of_nothing_are_unknown() -> None:
    assert Histogram().percentiles_ms((50.0, 100.0)) == [None, None]


def run_of(*, size_bytes: int | None, warm_up_messages: int, messages: int) -> LoadRun:
    setting = LoadSetting("t", ["127.0.0.1:1"], 1, 1, 1, 1, 32, size_bytes)
    run = LoadRun(lambda: BegunLoad(setting, []), lambda: None)
    run.setting, run.warm_up_messages, run.total.messages = setting, warm_up_messages, messages
    return run


@pytest.mark.parametrize(
    ("run", "is_said"),
    [
        (run_of(size_bytes=None, warm_up_messages=9, messages=0), True),
        (run_of(size_bytes=None, warm_up_messages=9, messages=1), False),
        (run_of(size_bytes=None, warm_up_messages=0, messages=0), False),
        (run_of(size_bytes=128, warm_up_messages=9, messages=0), False),
    ],
)
def test_what_was_all_read_in_the_warm_up_is_said(run: LoadRun, is_said: bool) -> None:
    """`bench consume` of a small topic used to show rows of zeros without an explanation."""
    assert ("in the warm-up: --repeat" in (LoadFigures(run).remark() or "")) is is_said
