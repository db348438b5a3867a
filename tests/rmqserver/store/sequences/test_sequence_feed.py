"""The producers' sequence numbers that a store knows equal a model, whatever happens to the store: restarts, kills,
power cuts, a lost file, a copy of the log, another broker on the store."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqproto.errors import ProtocolError
from rmqproto.message.record import decode_record_untrusted
from rmqproto.message.special_messages import REPEATS_KNOWN, ProducerSequence, parse_sequence_untrusted
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import StoreOptions
from rmqserver.store.recovery.cut_back import cut_back
from rmqserver.store.sequences import sequence_table
from rmqserver.store.sequences.sequence_feed import SequenceFeed
from rmqserver.store.sequences.sequence_table import LineKey, OutOfSequence, Saved, SequenceTable, StoredPlace
from tests.support.clock import Clock

from ..conftest import TINY, put

Sent = dict[tuple[LineKey, ProducerSequence], StoredPlace]


class Opened:
    """A store with its producers' sequence numbers."""

    def __init__(self, root: Path, options: StoreOptions = TINY):
        self.feeds: list[SequenceFeed] = []
        self.store = MessageStore(root, options, clock_ms=Clock(), background=False, follow=[self._follow])
        self.store.open()

    def _follow(self, store: MessageStore) -> SequenceFeed:
        self.feeds.append(SequenceFeed(store))
        return self.feeds[0]

    @property
    def feed(self) -> SequenceFeed:
        return self.feeds[0]

    def send(self, key: LineKey, number: ProducerSequence) -> StoredPlace:
        """Sends as a broker does. Raises OutOfSequence."""
        assert self.feed.is_ready
        place = self.feed.table.find(key, number)
        if place is None:
            properties = f"PRODUCER_SEQ\x01{number.render()}\x02".encode()
            appended = put(self.store, key.topic, key.queue_id, properties=properties)
            place = StoredPlace(appended.log_offset, appended.queue_offset)
            self.feed.added(key, number, [place])
        return place


def numbered(count: int, key: LineKey, epoch: int = 0, start: int = 0) -> list[ProducerSequence]:
    return [ProducerSequence(key.producer_id, epoch, start + number) for number in range(count)]


KEY = LineKey("p", "T", 0)


def test_a_message_that_comes_again_is_where_it_was(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    places = [opened.send(KEY, number) for number in numbered(5, KEY)]
    opened.store.commit()
    assert [opened.send(KEY, number) for number in numbered(5, KEY)] == places
    assert opened.store.max_offset("T", 0) == 5
    opened.store.close()


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (ProducerSequence("p", 1, 5), "comes before message 3"),
        (ProducerSequence("p", 0, 0), "epoch 0 has ended"),
        (ProducerSequence("p", 2, 1), "comes before message 0"),
        (ProducerSequence("q", 0, 1), "nothing is known of producer q"),
    ],
)
def test_what_is_not_the_next_is_refused_in_words(number: ProducerSequence, text: str) -> None:
    table = SequenceTable()
    for at, each in enumerate(numbered(3, KEY, epoch=1)):
        table.add(KEY, each, [StoredPlace(at, at)], 0)
    with pytest.raises(OutOfSequence, match=text):
        table.find(KEY._replace(producer_id=number.producer_id), number)
    assert table.find(KEY, ProducerSequence("p", 2, 0)) is None


def test_of_old_messages_the_table_knows_only_that_they_are_stored() -> None:
    table = SequenceTable()
    count = 5 * REPEATS_KNOWN
    for at, each in enumerate(numbered(count, KEY)):
        table.add(KEY, each, [StoredPlace(at, at)], 0)
        assert len(table.lines[KEY].places) < 4 * REPEATS_KNOWN
    oldest = numbered(1, KEY, start=count - REPEATS_KNOWN)[0]
    assert table.find(KEY, oldest) == StoredPlace(oldest.sequence, oldest.sequence)
    with pytest.raises(OutOfSequence, match="was stored"):
        table.find(KEY, ProducerSequence("p", 0, 0))


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_table, "LINES_MAX", 3)
    table = SequenceTable()
    for queue_id in (0, 1, 2, 0, 3):
        key = KEY._replace(queue_id=queue_id)
        line = table.lines.get(key)
        number = ProducerSequence("p", 0, line.last_sequence + 1 if line else 0)
        table.add(key, number, [StoredPlace(queue_id, 0)], 1000 * queue_id)
    assert [key.queue_id for key in table.lines] == [2, 0, 3], "the quietest is forgotten"
    table.forget_quiet(sequence_table.KEPT_MS + 2_001)
    assert [key.queue_id for key in table.lines] == [3]


@given(st.text(max_size=30))
def test_number_or_protocol_error(text: str) -> None:
    try:
        number = parse_sequence_untrusted(text)
    except ProtocolError:
        return
    assert parse_sequence_untrusted(number.render()) == number


@given(st.binary(max_size=60), st.integers(0, 10_000), st.integers(1, 255))
def test_a_damaged_file_is_none(noise: bytes, at: int, flip: int) -> None:
    table = SequenceTable()
    for number in numbered(3, KEY):
        table.add(KEY, number, [StoredPlace(7, 8)], 9)
    saved = Saved(100, 7, 8, [sequence_table.saved_line(key, line) for key, line in table.lines.items()])
    data = bytearray(sequence_table.FILE.encode(saved))
    found = sequence_table.FILE.decode_untrusted(bytes(data))
    assert found == saved
    key, line = sequence_table.line_of(found.lines[0])
    assert (key, line.last_sequence, line.place(0)) == (KEY, 2, StoredPlace(7, 8))
    data[at % len(data)] ^= flip
    assert sequence_table.FILE.decode_untrusted(bytes(data)) is None
    assert sequence_table.FILE.decode_untrusted(bytes(data[: at % len(data)])) is None
    assert sequence_table.FILE.decode_untrusted(noise) is None


# --- against a model -------------------------------------------------------------------------------------------------

RESTARTS = ["close", "kill", "lose file", "other log"]
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["send", "again", "epoch"]), st.integers(0, 3), st.integers(1, 6)),
        st.tuples(st.sampled_from(["commit", "checkpoint", *RESTARTS]), st.just(0), st.just(0)),
    ),
    min_size=3,
    max_size=40,
)
KEYS = [LineKey(f"p{number % 2}", "T", number // 2) for number in range(4)]


class Run:
    """``ledger``: the place that was reported for each message. ``unwritten``: the messages of this round, whose
    producers have no answer yet."""

    def __init__(self, root: Path):
        self.root = root
        self.opened = Opened(root)
        self.ledger: Sent = {}
        self.unwritten: Sent = {}
        self.following = {key: ProducerSequence(key.producer_id, 0, 0) for key in KEYS}

    def send(self, key: LineKey, count: int) -> None:
        for _ in range(count):
            number = self.following[key]
            self.unwritten[key, number] = self.opened.send(key, number)
            self.following[key] = number._replace(sequence=number.sequence + 1)

    def again(self, key: LineKey, count: int) -> None:
        end = self.following[key].sequence
        for sequence in range(max(end - count, 0), end):
            number = self.following[key]._replace(sequence=sequence)
            assert self.opened.send(key, number) == (self.unwritten | self.ledger)[key, number]

    def epoch(self, key: LineKey, _: int) -> None:
        self.following[key] = ProducerSequence(key.producer_id, self.following[key].epoch + 1, 0)

    def commit(self) -> None:
        self.opened.store.commit()
        self.ledger |= self.unwritten
        self.unwritten.clear()

    def restart(self, event: str) -> None:
        if event == "kill":  # no producer has its answer
            for key, number in self.unwritten:
                self.following[key] = min(self.following[key], number)
            self.unwritten.clear()
        else:
            self.commit()
        written = self.opened.store.written_offset
        if event == "close":
            assert self.opened.store.close()
        else:
            self.opened.store.abandon()
        if event == "lose file":
            (self.root / "producerSequences").unlink(missing_ok=True)
        elif event == "other log":
            (self.root / "producerSequences").write_bytes(sequence_table.FILE.encode(Saved(written, 0, 1, [])))
        self.opened = Opened(self.root)

    def found(self) -> Sent:
        found: Sent = {}
        for queue_id in (0, 1):
            for queue_offset in range(self.opened.store.max_offset("T", queue_id)):
                (record,) = self.opened.store.get("T", queue_id, queue_offset, 1).records()
                message = decode_record_untrusted(record)
                number = parse_sequence_untrusted(message.properties["PRODUCER_SEQ"])
                key = LineKey(number.producer_id, "T", queue_id)
                assert (key, number) not in found, "stored twice"
                found[key, number] = StoredPlace(message.log_offset, queue_offset)
        return found


@settings(max_examples=25, deadline=None)
@given(EVENTS)
def test_each_message_is_stored_once_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, int, int]]
) -> None:
    run = Run(tmp_path_factory.mktemp("numbers"))
    acts = {"send": run.send, "again": run.again, "epoch": run.epoch}
    for event, which, count in events:
        if event in acts:
            acts[event](KEYS[which], count)
        elif event in RESTARTS:
            run.restart(event)
        else:
            run.commit()
            if event == "checkpoint":
                run.opened.store.flush()
    run.commit()
    assert run.found() == run.ledger
    run.opened.store.close()


def test_a_copied_log_is_known_as_its_master_knows_it(tmp_path: Path) -> None:
    master, slave = Opened(tmp_path / "master"), Opened(tmp_path / "slave")
    put(master.store, "T", 0)
    places = [master.send(KEY, number) for number in numbered(40, KEY)]
    master.store.commit()
    copy, log = slave.store.log_copy(), master.store.log
    while copy.end_offset < log.written_offset:
        at = copy.end_offset
        size = min(777, log.segments.base_of(at) + TINY.commit_log_file_size_bytes - at, log.written_offset - at)
        copy.append(at, log.segments.read(at, size))
        copy.dispatch_all()
    assert slave.feed.table.lines[KEY].places == master.feed.table.lines[KEY].places
    assert slave.store.close(), "its role is another from now on"
    again = Opened(tmp_path / "slave")
    assert [again.send(KEY, number) for number in numbered(40, KEY)] == places
    assert again.send(KEY, numbered(1, KEY, start=40)[0]).queue_offset == 41
    for each in (master, again):
        each.store.close()


def test_what_is_not_confirmed_is_forgotten_when_it_is_cut_off(tmp_path: Path) -> None:
    """This broker was a master, and no other broker has its last messages."""
    opened = Opened(tmp_path, replace(TINY, waits_for_copies=True))
    places = [opened.send(KEY, number) for number in numbered(3, KEY)]
    opened.store.commit()
    end = opened.store.written_offset
    opened.store.copied(end)
    lost = [opened.send(KEY, number) for number in numbered(2, KEY, start=3)]
    opened.store.commit()
    assert opened.store.close()
    cut_back(str(tmp_path), TINY.commit_log_file_size_bytes, end, OsDisk())
    opened = Opened(tmp_path)
    assert [opened.send(KEY, number) for number in numbered(3, KEY)] == places
    with pytest.raises(OutOfSequence, match="comes before message 3"):
        opened.send(KEY, numbered(1, KEY, start=4)[0])
    assert opened.send(KEY, numbered(1, KEY, start=3)[0]) == lost[0], "stored anew, in the same place"
    opened.store.close()
