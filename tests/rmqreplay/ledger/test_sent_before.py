"""What counts as redriven, over ledgers and a source without a network."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import UsageError
from rmqreplay.ledger.ledger import Begin, DoneLine, EndLine, Fence, FenceLine, Ledger
from rmqreplay.ledger.letters import BrokerSeen, Letter, LetterBook, Witness, mark_of, marked_runs, unmarked
from rmqreplay.ledger.sent_before import changed_queue, sent_before, sent_of_letters, sent_of_ranges
from rmqreplay.plans.plan import Plan, Selection, Source, TargetRule, save_plan
from rmqreplay.source.offset_ranges import OffsetRange, OffsetSet, queue_text

QUEUE = MessageQueue("%DLQ%g", "broker-a", 0)
HERE = BrokerSeen("DefaultCluster", ["10.0.0.5:10911"])


def letter(offset: int, store: str = "a") -> Letter:
    host = "0A000005" if store == "a" else "0A000105"
    offset_id = f"{host}00002A9F{offset:016X}"
    return Letter(mark_of(f"key-{offset}", offset_id, 1000 + offset + (store != "a")), offset_id, 1000 + offset)


class Cluster:
    """A source of 100 letters. The letters from ``own_from`` on are not those of store "a"."""

    name_servers = frozenset({"h:1"})

    def __init__(self, own_from: int = 100, seen: BrokerSeen = HERE, *, lacks: bool = False):
        self._own_from, self._seen, self._lacks = own_from, seen, lacks
        self.asked_count = 0

    def broker(self, queue: MessageQueue) -> BrokerSeen:
        return self._seen

    def letter(self, place: tuple[MessageQueue, int]) -> Letter | None:
        self.asked_count += 1
        return letter(place[1], "a" if place[1] < self._own_from else "b") if place[1] < 100 else None

    def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        return 0, 100

    def lacks_job(self, job: str, fences: list[Fence]) -> bool:
        return self._lacks


def plan_of(name: str, start: int, end: int, **changes: object) -> Plan:
    return Plan(
        job=name, created_ms=1, source=Source(name_server="h:1"), ranges=[OffsetRange(QUEUE, start, end)],
        target=TargetRule(kind="same", topics=["T"]), skip_redriven=True,
        shown={"oldest_ms": 1000 + start, "newest_ms": 1000 + end}, **changes,
    )  # fmt: skip


def a_job(
    root: Path, name: str, start: int, end: int, *, done: bool = True, old: bool = False, **changes: object
) -> Plan:
    """A job over letters of store "a". ``old``: with the ledger of an earlier version."""
    witnesses = {} if old else {queue_text(QUEUE): Witness(end - 1, letter(end - 1).mark)}
    plan = plan_of(name, start, end, witnesses=witnesses, **changes)
    directory = str(root / name)
    os.makedirs(directory)
    save_plan(directory, plan)
    delivered, marks = marked_runs({(QUEUE, offset): letter(offset).mark for offset in range(start, end)})
    with Ledger(directory) as ledger:
        ledger.append(Begin(plan.identity, 1, brokers={} if old else {"broker-a": HERE}))
        ledger.append(FenceLine(0, []))
        if done:
            ledger.append(DoneLine(0, delivered, {}, {} if old else marks))
            ledger.append(EndLine(2))
    return plan


def sent(root: Path, source: Cluster, start: int = 0, end: int = 100) -> list[tuple[int, int]]:
    ranges = [OffsetRange(QUEUE, start, end)]
    found = sent_of_ranges(str(root), ranges, source).places
    letters = {(QUEUE, at): one for at in range(start, end) if (one := source.letter((QUEUE, at))) is not None}
    assert OffsetSet.of_offsets(sent_of_letters(str(root), letters, source)) == found, "one rule for all who ask"
    assert sent_before(str(root), plan_of("mine", start, end), source, strict=True).places == found
    return [(each.start, each.end) for each in found]


def test_what_other_jobs_delivered_counts_and_what_they_may_still_send_is_refused(tmp_path: Path) -> None:
    a_job(tmp_path, "first", 0, 10)
    assert sent(tmp_path, Cluster(), 5, 20) == [(5, 10)]
    assert sent_before(str(tmp_path), plan_of("first", 0, 10), Cluster(), strict=True).places.count == 0, "its own"
    a_job(tmp_path, "elsewhere", 50, 60, done=False)
    sent_before(str(tmp_path), plan_of("mine", 5, 20), Cluster(), strict=True)
    a_job(tmp_path, "open", 15, 17, done=False)
    with pytest.raises(UsageError, match="job open has begun"):
        sent_before(str(tmp_path), plan_of("mine", 5, 20), Cluster(), strict=True)
    found = sent_before(str(tmp_path), plan_of("mine", 5, 20), Cluster(), strict=False)
    assert (found.places.count, found.by_job) == (5, {"first": 5})


def test_other_letters_at_the_same_offsets_were_not_sent(tmp_path: Path) -> None:
    """Another cluster with a broker-a, or the same one made anew. Its open jobs are nobody's business here."""
    a_job(tmp_path, "first", 0, 30)
    a_job(tmp_path, "open", 30, 40, done=False)
    assert sent(tmp_path, Cluster(own_from=0)) == []


@pytest.mark.parametrize("own_from", [1, 7, 29, 30])
def test_what_two_stores_share_ends_where_they_part(tmp_path: Path, own_from: int) -> None:
    """A store that lost its end, or a copy that went on by itself."""
    a_job(tmp_path, "first", 0, 30)
    source = Cluster(own_from)
    assert sent(tmp_path, source) == [(0, own_from)]
    before = source.asked_count
    sent_of_ranges(str(tmp_path), [OffsetRange(QUEUE, 0, 100)], source)
    assert source.asked_count - before <= 7, "it looks at few of them"


@pytest.mark.parametrize(
    ("seen", "lacks", "counts"),
    [
        (HERE, True, True),  # the same address: its target may have been deleted
        (BrokerSeen("DefaultCluster", ["10.0.0.6:10911"]), False, True),  # a slave has taken over
        (BrokerSeen("DefaultCluster", ["10.0.0.6:10911"]), True, False),  # a copy that never got what the job sent
        (BrokerSeen("Other", ["10.0.0.5:10911"]), False, False),  # a copy, with another cluster's name
        (BrokerSeen(), False, True),  # a store directory says nothing of its cluster
    ],
)
def test_a_copy_of_a_store_is_told_from_a_fail_over(
    tmp_path: Path, seen: BrokerSeen, lacks: bool, counts: bool
) -> None:
    a_job(tmp_path, "first", 0, 10)
    assert sent(tmp_path, Cluster(seen=seen, lacks=lacks)) == ([(0, 10)] if counts else [])


def test_what_was_sent_to_another_cluster_was_sent_whichever_copy_it_was_read_from(tmp_path: Path) -> None:
    target = TargetRule(kind="same", name_server="other:1", topics=["T"])
    a_job(tmp_path, "first", 0, 10)
    plan = msgspec.structs.replace(plan_of("first", 0, 10), target=target)
    save_plan(str(tmp_path / "first"), plan)
    moved = Cluster(seen=BrokerSeen("DefaultCluster", ["10.0.0.6:10911"]), lacks=True)
    assert sent(tmp_path, moved) == [(0, 10)]


def test_an_old_ledger_counts_only_where_its_plan_names_the_offset_message_id(tmp_path: Path) -> None:
    ids = [letter(at).offset_message_id for at in range(10)]
    a_job(tmp_path, "marked", 0, 10, old=True, selection=Selection(ids=ids))
    a_job(tmp_path, "other", 20, 30, old=True)
    assert sent(tmp_path, Cluster()) == [(0, 10)]
    assert sent(tmp_path, Cluster(own_from=0)) == [], "another store host"
    found = sent_of_ranges(str(tmp_path), [OffsetRange(QUEUE, 0, 100)], Cluster())
    assert found.unproven == {"other": 10}, "not left out, and said"


def test_an_old_ledger_of_other_name_servers_or_of_other_times_is_not_mentioned(tmp_path: Path) -> None:
    a_job(tmp_path, "old", 0, 10, old=True)
    elsewhere = Cluster()
    elsewhere.name_servers = frozenset({"h:2"})
    ranges = [OffsetRange(QUEUE, 0, 10)]
    assert sent_of_ranges(str(tmp_path), ranges, elsewhere).unproven == {}

    class Anew(Cluster):
        def letter(self, place: tuple[MessageQueue, int]) -> Letter | None:
            return msgspec.structs.replace(letter(place[1]), store_timestamp_ms=5000 + place[1])

    assert sent_of_ranges(str(tmp_path), ranges, Anew()).unproven == {}
    assert sent_of_ranges(str(tmp_path), ranges, Cluster()).unproven == {"old": 10}


def test_retention_and_holes_hide_nothing(tmp_path: Path) -> None:
    a_job(tmp_path, "first", 0, 30)

    class Holes(Cluster):
        def letter(self, place: tuple[MessageQueue, int]) -> Letter | None:
            return None if place[1] in (28, 29) else super().letter(place)

    assert sent_of_ranges(str(tmp_path), [OffsetRange(QUEUE, 20, 30)], Holes()).places.count == 10


def test_a_plan_knows_its_messages_again(tmp_path: Path) -> None:
    plan = a_job(tmp_path, "first", 0, 10, done=False)
    assert changed_queue(plan, Cluster()) is None
    assert changed_queue(plan, Cluster(own_from=9)) == queue_text(QUEUE)
    beyond = msgspec.structs.replace(plan, witnesses={queue_text(QUEUE): Witness(100, b"12345678")})
    assert changed_queue(beyond, Cluster()) == queue_text(QUEUE), "the queue has not come that far"
    assert changed_queue(msgspec.structs.replace(plan, witnesses={}), Cluster(own_from=0)) is None, "an old plan"


def test_a_message_without_a_unique_key_is_known_by_its_log_offset_not_its_host() -> None:
    """After a fail-over the store host may be another."""
    one, other = f"0A00000500002A9F{7:016X}", f"0A00000600002A9F{7:016X}"
    assert mark_of(one, one, 5) == mark_of(other, other, 5)
    assert len({mark_of(one, one, 5), mark_of(one, one, 6), mark_of("key", one, 5), mark_of("kez", one, 5)}) == 4


places = st.dictionaries(
    st.tuples(st.builds(MessageQueue, st.just("T"), st.sampled_from("ab"), st.integers(0, 1)), st.integers(0, 40)),
    st.binary(min_size=8, max_size=8),
)


@given(places)
def test_marks_come_back_as_they_were(marks: Mapping[tuple[MessageQueue, int], bytes]) -> None:
    runs, joined = marked_runs(marks)
    assert unmarked(runs, joined) == marks
    book = LetterBook([(runs, joined)])
    assert all(book.mark(place) == mark for place, mark in marks.items())
    assert all(book.mark((queue, offset + 1)) == marks.get((queue, offset + 1)) for queue, offset in marks)
    assert all(LetterBook([(runs, {})]).mark(place) == b"" for place in marks)
