"""Files of single consume queues are gone at a start. What the log still has must come back, and every queue goes on at
its own queue offset."""

import errno
from collections.abc import Callable
from random import Random

import pytest

from rmqproto.errors import StorageError
from rmqserver.store.message_store import MessageStore
from rmqserver.store.queues import consume_queues
from rmqserver.store.results import MessageRefused
from tests.crash.recording_disk import Loss, RecordingDisk, RecordingFile
from tests.rmqserver.store.conftest import TINY, bodies, cleaned, put
from tests.support.clock import Clock

ROOT = "/store"
COUNT = 35
"""Messages of each queue: three full files and half a file."""
QUEUES = (("T", 0), ("T", 1), ("U", 0))


@pytest.fixture
def disk() -> RecordingDisk:
    return RecordingDisk()


def opened(disk: RecordingDisk, *, read_only: bool = False) -> MessageStore:
    store = MessageStore(ROOT, TINY, disk, clock_ms=Clock(), background=False, read_only=read_only)
    store.open()
    return store


def filled(disk: RecordingDisk, first: int = 0) -> MessageStore:
    """Every queue has its messages, and all of them are dispatched."""
    store = opened(disk)
    for number in range(first, COUNT):
        for topic, queue_id in QUEUES:
            put(store, topic, queue_id, b"%s %d %d" % (topic.encode(), queue_id, number), tags="red")
        store.commit()
    while store.dispatch_some():
        pass
    return store


def killed(disk: RecordingDisk) -> None:
    """The newest message of each queue is only in the log."""
    store = filled(disk)
    for topic, queue_id in QUEUES:
        put(store, topic, queue_id, b"%s %d %d" % (topic.encode(), queue_id, COUNT), tags="red")
    store.commit()
    store.abandon()


def assert_whole(store: MessageStore, count: int) -> None:
    for topic, queue_id in QUEUES:
        assert (store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)) == (0, count)
        assert bodies(store, topic, queue_id) == [b"%s %d %d" % (topic.encode(), queue_id, n) for n in range(count)]


def remove_files(disk: RecordingDisk, topic: str, queue_id: int, numbers: tuple[int, ...]) -> None:
    """Removes these files of the queue, counted from its first; its directory, too, if there are four."""
    directory = f"{ROOT}/consumequeue/{topic}/{queue_id}"
    for number in numbers:
        disk.unlink(f"{directory}/{number * TINY.consume_queue_file_size_bytes:020d}")
    if len(numbers) == 4:
        disk.rmdir(directory)


LOST = [(0, 1, 2, 3), (1, 2, 3), (3,), (0,), (0, 1), (0, 3)]


@pytest.mark.parametrize("numbers", LOST[:3], ids=str)
@pytest.mark.parametrize("lost", [QUEUES[:1], QUEUES[:2]], ids=["one", "two"])
def test_a_killed_store_fills_a_gap_in_a_queue_from_the_log(
    disk: RecordingDisk, lost: tuple[tuple[str, int], ...], numbers: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """Blanks were written into the gap, and consumers passed over messages that were in the log."""
    killed(disk)
    for topic, queue_id in lost:
        remove_files(disk, topic, queue_id, numbers)
    assert_whole(opened(disk.image(Loss.NOTHING, Random(0)), read_only=True), COUNT + 1)
    caplog.clear()
    store = opened(disk)
    assert_whole(store, COUNT + 1)
    assert caplog.text.count("event=log-replayed-again") == 1
    assert caplog.text.count("event=queue-gap") == len(lost)
    assert store.close()
    assert_whole(opened(disk), COUNT + 1)


def test_a_start_that_fills_a_gap_may_be_killed_at_any_moment(disk: RecordingDisk) -> None:
    """The marks said that the queues were whole until the new units were written."""
    killed(disk)
    remove_files(disk, "T", 1, LOST[0])
    moments: list[RecordingDisk] = []
    disk.on_change = lambda: moments.append(disk.image(Loss.NOTHING, Random(0)))
    store = opened(disk)
    while store.dispatch_some():
        pass
    store.flush()
    disk.on_change = None
    assert len(moments) > 20
    for moment in moments:
        again = opened(moment)
        assert_whole(again, COUNT + 1)
        again.abandon()


def test_a_gap_that_the_log_cannot_fill_is_told_and_passed_over(
    disk: RecordingDisk, caplog: pytest.LogCaptureFixture
) -> None:
    killed(disk)
    remove_files(disk, "T", 1, (1, 2, 3))
    path = f"{ROOT}/commitlog/{0:020d}"
    data = disk.read_bytes(path)
    at = data.index(b"T 1 12")
    disk.open(path).pwrite(b"?", at)  # this record and those behind it in its file cannot be read
    store = opened(disk)
    assert "no readable record at log offset" in caplog.text
    assert "nothing leads to messages 12 to" in caplog.text
    found = bodies(store, "T", 1)
    assert found[:12] + found[-1:] == [b"T 1 %d" % number for number in (*range(12), COUNT)]
    lost = disk.read_bytes(path)[at:].count(b"T 1 ") + 1
    assert store.max_offset("T", 1) == COUNT + 1
    assert len(found) >= COUNT + 1 - lost


def test_a_store_without_gaps_is_replayed_once(disk: RecordingDisk, caplog: pytest.LogCaptureFixture) -> None:
    killed(disk)
    assert_whole(opened(disk), COUNT + 1)
    assert "event=log-replayed-again" not in caplog.text


def test_a_topic_that_was_deleted_and_made_again_has_no_gap(
    disk: RecordingDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """Its older messages are replayed, too, and look as if their queue had lost its files."""
    killed(disk)
    store = opened(disk)
    store.delete_topic("T")
    put(store, "T", 1, b"new")
    store.commit()
    store.abandon()
    caplog.clear()
    assert bodies(opened(disk), "T", 1) == [b"new"]
    assert "event=log-replayed-again" not in caplog.text


# -- the newest messages of the queue were dispatched long before: no record tells of the loss


def closed(disk: RecordingDisk) -> None:
    assert filled(disk).close()


def killed_later(disk: RecordingDisk) -> None:
    """Closed, then opened and killed without any new message."""
    closed(disk)
    opened(disk).abandon()


def killed_at_once(disk: RecordingDisk) -> None:
    """Killed in its first run: nothing was ever noted at a close."""
    filled(disk).abandon()


def killed_with_more(disk: RecordingDisk) -> None:
    """Closed after its first messages; the other files were made by the process that was killed."""
    store = opened(disk)
    for number in range(5):
        for topic, queue_id in QUEUES:
            put(store, topic, queue_id, b"%s %d %d" % (topic.encode(), queue_id, number), tags="red")
        store.commit()
    assert store.close()
    filled(disk, first=5).abandon()


ENDED = pytest.mark.parametrize("ended", [closed, killed_later, killed_at_once, killed_with_more])


@ENDED
@pytest.mark.parametrize("numbers", LOST, ids=str)
@pytest.mark.parametrize(
    "lost",
    [(0, 1), (0, 2), *(pytest.param(each, marks=pytest.mark.slow) for each in ((0,), (1,), (2,), (0, 1, 2)))],
    ids=str,
)
def test_queues_that_have_lost_files_are_made_again(
    disk: RecordingDisk, ended: Callable[[RecordingDisk], None], lost: tuple[int, ...], numbers: tuple[int, ...]
) -> None:
    """They were taken for shorter ones without a word: messages were hidden, and new ones got their queue offsets."""
    ended(disk)
    for index in lost:
        remove_files(disk, *QUEUES[index], numbers)
    assert_whole(opened(disk.image(Loss.NOTHING, Random(0)), read_only=True), COUNT)
    store = opened(disk)
    assert [put(store, *queue).queue_offset for queue in QUEUES] == [COUNT] * len(QUEUES)
    store.commit()
    for queue in QUEUES:
        assert bodies(store, *queue)[:-1] == [b"%s %d %d" % (queue[0].encode(), queue[1], n) for n in range(COUNT)]
    assert store.close()


@ENDED
def test_the_directory_of_a_topic_may_be_gone(
    disk: RecordingDisk, ended: Callable[[RecordingDisk], None], caplog: pytest.LogCaptureFixture
) -> None:
    ended(disk)
    disk.remove_tree(f"{ROOT}/consumequeue/T")
    assert_whole(opened(disk), COUNT)
    assert caplog.text.count("event=queue-gap topic=T") == 2
    assert "event=log-replayed-again from=0" in caplog.text


@ENDED
def test_a_queue_that_no_start_looks_for_is_refused_and_made_again_by_the_next(
    disk: RecordingDisk, ended: Callable[[RecordingDisk], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start looks for the files of so many queues and no more."""
    monkeypatch.setattr(consume_queues, "LOOKED_FOR_MAX", 0)
    ended(disk)
    remove_files(disk, "T", 1, (3,))
    store = opened(disk)
    with pytest.raises(
        StorageError, match=r"T/1: the queue had messages up to queue offset 3\d, and its files end at 30"
    ):
        store.max_offset("T", 1)
    with pytest.raises(MessageRefused):
        put(store, "T", 1)
    assert bodies(store, "T", 0)[-1] == b"T 0 34"
    assert store.close()
    assert_whole(opened(disk), COUNT)


@ENDED
def test_a_whole_queue_without_a_directory_is_refused_too(
    disk: RecordingDisk, ended: Callable[[RecordingDisk], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume_queues, "LOOKED_FOR_MAX", 0)
    ended(disk)
    remove_files(disk, "T", 1, (0, 1, 2, 3))
    store = opened(disk)
    with pytest.raises(
        StorageError, match=r"T/1: the queue had messages up to queue offset 3\d, and its files end at 0"
    ):
        store.max_offset("T", 1)


@pytest.mark.parametrize("numbers", [(0,), (0, 1), (0, 3)], ids=str)
def test_a_replay_from_the_start_finds_queues_without_their_first_files(
    disk: RecordingDisk, numbers: tuple[int, ...]
) -> None:
    """Nothing had been noted, because the store was never closed. The newest message's queue is gone, so the start
    reads the whole log; it meets messages whose units are missing."""
    killed(disk)
    remove_files(disk, "U", 0, LOST[0])
    remove_files(disk, "T", 0, numbers)
    assert_whole(opened(disk.image(Loss.NOTHING, Random(0)), read_only=True), COUNT + 1)
    assert_whole(opened(disk), COUNT + 1)


# -- what is no loss


@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
def test_deleted_topics_do_not_come_back(
    disk: RecordingDisk, is_killed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    closed(disk)
    store = opened(disk)
    store.delete_topic("T")
    if is_killed:
        store.abandon()
    else:
        assert store.close()
    again = opened(disk)
    assert again.queues.names() == ["U"]
    assert put(again, "T", 1).queue_offset == 0
    assert "event=log-replayed-again" not in caplog.text


@ENDED
def test_first_files_that_have_expired_are_not_missed(
    disk: RecordingDisk, ended: Callable[[RecordingDisk], None], caplog: pytest.LogCaptureFixture
) -> None:
    closed(disk)
    store = opened(disk)
    path = f"{ROOT}/commitlog/{0:020d}"
    cleaned(store, 1 << 50)
    assert not disk.is_file(path)
    assert not disk.is_file(f"{ROOT}/consumequeue/T/1/{0:020d}")
    if ended is closed:
        assert store.close()
    else:
        store.abandon()
    again = opened(disk)
    assert again.max_offset("T", 1) == COUNT > again.min_offset("T", 1) > 0
    assert "event=log-replayed-again" not in caplog.text


def killed_behind_a_checkpoint(disk: RecordingDisk) -> None:
    """Only the notes tell of the queues, and the checkpoint vouches for them."""
    assert opened(disk).close()
    store = filled(disk)
    store.flush()
    store.abandon()


@pytest.mark.parametrize("ended", [closed, killed_later, killed_with_more, killed_behind_a_checkpoint])
@pytest.mark.parametrize("loss", [Loss.NOTHING, Loss.NAMES, Loss.DATA, Loss.EVERYTHING], ids=lambda loss: loss.name)
def test_a_start_that_is_crashed_while_it_looks_forgets_no_lost_file(
    disk: RecordingDisk, ended: Callable[[RecordingDisk], None], loss: Loss
) -> None:
    """The checkpoint vouched for nothing any more, and ``abort`` did not say yet that a broker of ours runs: the next
    start took the store for another broker's, and a queue without files for a new one."""
    ended(disk)
    disk.sync_file_system(ROOT)
    remove_files(disk, "T", 1, (0, 1, 2, 3))
    images: list[RecordingDisk] = []
    disk.on_change = lambda: images.append(disk.image(loss, Random(0)))
    opened(disk)
    disk.on_change = None
    assert len(images) > 5
    for image in images:
        assert_whole(opened(image), COUNT)


def test_a_queue_whose_messages_have_expired_goes_on_at_its_offset(disk: RecordingDisk) -> None:
    closed(disk)
    remove_files(disk, "T", 1, (0, 1, 2, 3))
    for base in (0, 4096):
        disk.unlink(f"{ROOT}/commitlog/{base:020d}")
    store = opened(disk)
    first = store.min_offset("T", 1)
    assert bodies(store, "T", 1) == [b"T 1 %d" % number for number in range(first, COUNT)]
    assert 0 < first < put(store, "T", 1).queue_offset == COUNT


def test_messages_that_the_log_no_longer_has_end_a_queue(disk: RecordingDisk) -> None:
    closed(disk)
    path = f"{ROOT}/commitlog/{8192:020d}"
    at = disk.read_bytes(path).index(b"U 0 34")
    disk.open(path).pwrite(b"?", at)
    store = opened(disk)
    assert put(store, "U").queue_offset == COUNT - 1


@pytest.mark.parametrize("content", [b"", b"RMQE", bytes(100)], ids=["empty", "short", "zeros"])
def test_a_damaged_table_of_ends_is_none(disk: RecordingDisk, content: bytes) -> None:
    closed(disk)
    file = disk.open(f"{ROOT}/queueEnds")
    file.truncate(0)
    file.pwrite(content, 0)
    store = opened(disk)
    assert_whole(store, COUNT)
    assert not disk.is_file(f"{ROOT}/queueEnds")
    assert store.close()
    assert disk.is_file(f"{ROOT}/queueEnds")


def test_a_table_of_ends_of_another_time_is_none(disk: RecordingDisk) -> None:
    closed(disk)
    old = disk.read_bytes(f"{ROOT}/queueEnds")
    store = opened(disk)
    put(store, "U", 0)
    store.commit()
    assert store.close()
    file = disk.open(f"{ROOT}/queueEnds")
    file.truncate(0)
    file.pwrite(old, 0)
    opened(disk)
    assert not disk.is_file(f"{ROOT}/queueEnds")


# -- the notes of new files


def cut_without_the_log(disk: RecordingDisk) -> RecordingDisk:
    """What a power cut may leave: the note of a topic's first file, without the file and without the message."""
    assert opened(disk).close()  # so there is a checkpoint
    filled(disk).flush()
    store = opened(disk.image(Loss.NOTHING, Random(0)))
    put(store, "new")
    store.commit()
    while store.dispatch_some():
        pass
    assert isinstance(store.disk, RecordingDisk)
    cut = store.disk.image(Loss.EVERYTHING, Random(0))
    notes = cut.open(f"{ROOT}/queueFiles", create_size_bytes=0)
    notes.truncate(0)
    notes.pwrite(store.disk.read_bytes(f"{ROOT}/queueFiles"), 0)
    notes.fdatasync()
    cut.sync_directory(ROOT)
    return cut


def test_after_a_power_cut_a_note_that_no_checkpoint_vouches_for_counts_for_nothing(
    disk: RecordingDisk, caplog: pytest.LogCaptureFixture
) -> None:
    cut = cut_without_the_log(disk)
    caplog.clear()
    again = opened(cut)
    assert "event=log-replayed-again" not in caplog.text
    assert put(again, "new").queue_offset == 0


def test_such_a_note_counts_for_nothing_after_a_second_power_cut(disk: RecordingDisk) -> None:
    """The log has grown meanwhile, and the checkpoint vouches for another record in the place of the noted one."""
    cut = cut_without_the_log(disk)
    store = opened(cut)
    put(store, "U")
    put(store, "U")
    store.commit()
    store.flush()
    cut_again = cut.image(Loss.EVERYTHING, Random(0))
    assert put(opened(cut_again), "new").queue_offset == 0


@pytest.mark.parametrize("is_killed", [False, True], ids=["running", "killed"])
def test_after_a_power_cut_the_notes_that_the_checkpoint_vouches_for_count(
    disk: RecordingDisk, *, is_killed: bool
) -> None:
    """A queue whose only file was gone went on at 0: of queues made since the start, notes told, and those were never
    brought to the device."""
    disk.can_sync_file_system = False
    assert opened(disk).close()  # so there is a checkpoint
    store = filled(disk)
    if is_killed:
        store.abandon()
        store = opened(disk)
    store.flush()
    cut = disk.image(Loss.EVERYTHING, Random(0))
    remove_files(cut, "T", 1, (0, 1, 2, 3))
    assert_whole(opened(cut), COUNT)


def test_notes_of_records_that_the_log_does_not_have_are_dropped(
    disk: RecordingDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a copy of a running store for which the log was copied first."""
    filled(disk).flush()
    early = disk.image(Loss.NOTHING, Random(0))
    store = opened(early)
    put(store, "new")
    store.commit()
    while store.dispatch_some():
        pass
    store.abandon()
    notes = early.read_bytes(f"{ROOT}/queueFiles")
    assert b"new" in notes
    disk.open(f"{ROOT}/queueFiles").pwrite(notes, 0)
    caplog.clear()
    again = opened(disk)
    assert "event=log-replayed-again" not in caplog.text
    assert put(again, "U").queue_offset == COUNT
    assert put(again, "new").queue_offset == 0
    again.commit()
    while again.dispatch_some():
        pass
    again.abandon()
    disk.remove_tree(f"{ROOT}/consumequeue/new")
    assert opened(disk).max_offset("new", 0) == 1


@pytest.mark.parametrize("ended", [closed, killed_at_once])
def test_files_that_go_after_a_topic_was_deleted_are_missed(
    disk: RecordingDisk, ended: Callable[[RecordingDisk], None]
) -> None:
    """With the note of one queue went those of all others."""
    ended(disk)
    store = opened(disk)
    store.delete_topic("U")
    store.abandon()
    remove_files(disk, "T", 1, (3,))
    again = opened(disk)
    assert put(again, "T", 1).queue_offset == COUNT


def test_a_power_cut_brings_no_deleted_topic_back(disk: RecordingDisk) -> None:
    """The notes told of queues that were deleted, and the log still had their messages."""
    assert opened(disk).close()
    store = filled(disk)
    store.flush()
    store.delete_topic("T")
    again = opened(disk.image(Loss.DATA, Random(0)))
    assert again.max_offset("T", 1) == 0
    assert again.max_offset("U", 0) == COUNT


@pytest.mark.parametrize("has_room_again", [False, True], ids=["full", "room again"])
@pytest.mark.parametrize("loss", [Loss.NOTHING, Loss.DATA], ids=lambda loss: loss.name)
def test_a_topic_that_was_deleted_to_make_room_does_not_come_back(
    disk: RecordingDisk, loss: Loss, monkeypatch: pytest.MonkeyPatch, *, has_room_again: bool
) -> None:
    """That it was deleted could not be noted on the full disk, and was not noted later."""

    def no_room(file: RecordingFile, data: bytes, at: int) -> None:
        raise OSError(errno.ENOSPC, "no room", file.path)

    assert opened(disk).close()
    store = filled(disk)
    store.flush()
    with monkeypatch.context() as full:
        full.setattr(RecordingFile, "pwrite", no_room)
        store.delete_topic("T")
    if has_room_again:
        put(store, "U", 0, b"U 0 %d" % COUNT)
        store.commit()
        while store.dispatch_some():
            pass
        store.flush()
    image = disk.image(loss, Random(0))
    assert opened(image).max_offset("T", 1) == 0
    remove_files(image, "U", 0, (3,))
    assert opened(image).max_offset("U", 0) == COUNT + has_room_again


def test_a_topic_that_a_device_error_kept_does_not_come_back_after_it_was_deleted(
    disk: RecordingDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notes that the device had not taken counted as synced from then on."""

    def fails(file: RecordingFile) -> None:
        file.inode.fail_sync()
        raise OSError(errno.EIO, "no device", file.path)

    assert opened(disk).close()
    store = filled(disk)
    store.flush()
    with monkeypatch.context() as broken:
        broken.setattr(RecordingFile, "fdatasync", fails)
        with pytest.raises(StorageError):
            store.delete_topic("T")
    store.delete_topic("T")
    assert opened(disk.image(Loss.DATA, Random(0))).max_offset("T", 1) == 0


@pytest.mark.parametrize("content", [b"", b"RMQE", bytes(100), b"\0\0\0\1\0\0\0\0\xc0"], ids=str)
def test_damaged_notes_are_none(disk: RecordingDisk, content: bytes) -> None:
    killed_at_once(disk)
    file = disk.open(f"{ROOT}/queueFiles")
    file.truncate(0)
    file.pwrite(content, 0)
    assert_whole(opened(disk), COUNT)


def test_notes_end_at_the_first_damaged_one(disk: RecordingDisk) -> None:
    killed_at_once(disk)
    file = disk.open(f"{ROOT}/queueFiles")
    file.pwrite(b"?", file.size() - 1)
    assert_whole(opened(disk), COUNT)


def test_a_store_that_is_closed_has_no_notes(disk: RecordingDisk) -> None:
    killed_at_once(disk)
    assert disk.is_file(f"{ROOT}/queueFiles")
    assert opened(disk).close()
    assert not disk.is_file(f"{ROOT}/queueFiles")
