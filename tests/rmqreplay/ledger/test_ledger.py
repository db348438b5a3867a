import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import StorageError, UsageError
from rmqreplay.ledger.ledger import Begin, DoneLine, EndLine, Fence, FenceLine, Ledger, NoteLine, read_ledger
from rmqreplay.ledger.letters import origin_of, replay_id
from rmqreplay.ledger.sent_before import root_lock
from rmqreplay.plans.plan import Plan, Source, TargetRule, check_job_name, load_plan, save_plan
from rmqreplay.source.offset_ranges import OffsetRange, OffsetSet, parse_queue_text, queue_text, wave_slice

QUEUE = MessageQueue("%DLQ%g", "broker-a", 0)
FENCES = [Fence("T", "broker-a", 0, 17)]


def test_a_torn_last_line_is_cut_and_the_wave_before_it_counts(tmp_path):
    directory = str(tmp_path)
    with Ledger(directory) as ledger:
        ledger.append(Begin("hash", 1))
        ledger.append(FenceLine(0, FENCES))
        ledger.append(DoneLine(0, {queue_text(QUEUE): [(5, 9)]}))
    whole = (tmp_path / "ledger.jsonl").read_bytes()
    last = len(whole.splitlines(keepends=True)[-1])
    for cut in range(1, last + 1):
        (tmp_path / "ledger.jsonl").write_bytes(whole[: len(whole) - cut])
        with Ledger(directory) as ledger:
            assert ledger.state.open_wave == 0
            assert not ledger.state.done
        assert (tmp_path / "ledger.jsonl").read_bytes() == whole[:-last]


def test_damage_before_the_last_line_is_refused(tmp_path):
    with Ledger(str(tmp_path)) as ledger:
        ledger.append(Begin("hash", 1))
        ledger.append(FenceLine(0, FENCES))
    raw = bytearray((tmp_path / "ledger.jsonl").read_bytes())
    raw[12] ^= 1
    (tmp_path / "ledger.jsonl").write_bytes(raw)
    with pytest.raises(StorageError, match="line 1 is damaged"):
        Ledger(str(tmp_path))


def test_notes_are_kept_the_last_of_each_text(tmp_path):
    with Ledger(str(tmp_path)) as ledger:
        ledger.append(NoteLine("canary", {"went_on": False}))
        ledger.append(NoteLine("canary", {"went_on": True}))
    assert read_ledger(str(tmp_path)).notes == {"canary": {"went_on": True}}


def test_a_second_driver_is_refused_with_the_pid_of_the_first(tmp_path):
    import os

    with Ledger(str(tmp_path)), pytest.raises(StorageError, match=str(os.getpid())):
        Ledger(str(tmp_path))
    Ledger(str(tmp_path)).close()


def test_a_full_disk_is_told_and_leaves_the_job_to_others(tmp_path):
    lock = tmp_path / "lock"
    lock.symlink_to("/dev/full")
    for _ in range(2):
        with pytest.raises(StorageError, match=f"write {tmp_path}: No space left on device"):
            Ledger(str(tmp_path))
    lock.unlink()
    Ledger(str(tmp_path)).close()
    (tmp_path / ".lock").mkdir()
    with pytest.raises(StorageError, match=r"write .*/\.lock: Is a directory"), root_lock(str(tmp_path)):
        pass


def test_lines_out_of_order_are_refused(tmp_path):
    with Ledger(str(tmp_path)) as ledger:
        assert ledger.state.problem(FenceLine(0, FENCES))
        ledger.append(Begin("hash", 1))
        assert ledger.state.problem(DoneLine(0, {}))
        ledger.append(FenceLine(0, FENCES))
        assert ledger.state.problem(FenceLine(1, FENCES))
        assert ledger.state.problem(EndLine(2))
        ledger.append(DoneLine(0, {}))
        ledger.append(EndLine(2))
        assert ledger.state.problem(FenceLine(1, FENCES))
    assert read_ledger(str(tmp_path)).end


def test_a_changed_plan_is_refused(tmp_path):
    plan = Plan(
        job="j", created_ms=1, source=Source(path="/s"), ranges=[OffsetRange(QUEUE, 0, 9)],
        target=TargetRule(kind="same"),
    )  # fmt: skip
    save_plan(str(tmp_path), plan)
    assert load_plan(str(tmp_path)) == plan
    text = (tmp_path / "plan.json").read_text()
    (tmp_path / "plan.json").write_text(text.replace('"end": 9', '"end": 10'))
    with pytest.raises(StorageError, match="changed"):
        load_plan(str(tmp_path))


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "a:b", "x" * 65])
def test_job_names_that_are_no_directories_are_refused(name):
    with pytest.raises(UsageError):
        check_job_name(name)


queues = st.builds(MessageQueue, st.sampled_from(["T", "%DLQ%g|x"]), st.sampled_from(["b", "b:1"]), st.integers(0, 2))
places = st.lists(st.tuples(queues, st.integers(0, 40)), max_size=60)


@given(places, places)
def test_an_offset_set_is_the_set_of_its_offsets(some, more):
    one, two = OffsetSet.of_offsets(some), OffsetSet.of_offsets(more)
    one.update(two)
    assert {(each.queue, at) for each in one for at in range(each.start, each.end)} == {*some, *more}
    assert one.count == len({*some, *more})
    assert all(place in one for place in some)
    assert all((place in one) == (place in {*some, *more}) for place in [(QUEUE, 1), *((q, at + 1) for q, at in some)])
    assert OffsetSet.from_json(one.to_json()) == one
    assert two.overlap(one) == two


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=4), st.integers(1, 7))
def test_waves_share_nothing_and_leave_nothing_out(spans, wave_count):
    ranges = [
        OffsetRange(MessageQueue("T", "b", number), start, start + count) for number, (start, count) in enumerate(spans)
    ]
    slices = [each for wave in range(wave_count) for each in wave_slice(ranges, wave, wave_count)]
    assert OffsetSet(slices) == OffsetSet(ranges)
    assert sum(each.count for each in slices) == sum(each.count for each in ranges)


@given(queues, st.integers(0, 2**63 - 1))
def test_a_replay_id_names_its_origin(queue, offset):
    text = replay_id("job~0123", queue, offset)
    assert origin_of(text, "job~0123") == (queue, offset)
    assert origin_of(text, "job~012") is None
    assert parse_queue_text(queue_text(queue)) == queue
