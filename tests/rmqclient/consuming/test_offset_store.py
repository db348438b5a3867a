"""The file in which a member of a broadcasting group keeps its offsets."""

import tempfile
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqclient.consuming.offset_store import LocalOffsetStore
from rmqproto.bodies.base import MessageQueue
from rmqproto.errors import StorageError

GOLDEN = Path(__file__).parent.parent.parent / "golden/client/broadcast_offsets.json"
QUEUE = MessageQueue("T", "broker-a", 0)
queues = st.builds(MessageQueue, st.text(max_size=5), st.text(max_size=5), st.integers(0, 2**31 - 1))


async def write(file: Path, offsets: dict[MessageQueue, int]) -> None:
    store = LocalOffsetStore(file)
    for queue, offset in offsets.items():
        await store.write(queue, offset)
    await store.flush()


async def read(file: Path, wanted: list[MessageQueue]) -> list[int | None]:
    store = LocalOffsetStore(file)
    return [await store.read(queue) for queue in wanted]


def test_what_apaches_client_wrote_is_read() -> None:
    """``LocalFileOffsetStore`` of 5.5.0 wrote the file."""
    wanted = [MessageQueue("Topic", "broker-a", number) for number in range(3)] + [MessageQueue("Other", "broker-b", 7)]
    assert anyio.run(read, GOLDEN, wanted) == [100, 101, 102, 0]


@settings(max_examples=25)  # each example waits for the disk
@given(st.dictionaries(queues, st.integers(0, 2**63 - 1), max_size=5))
def test_what_is_written_is_read(offsets: dict[MessageQueue, int]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "client/group/offsets.json"
        anyio.run(write, file, offsets)
        assert anyio.run(read, file, list(offsets)) == list(offsets.values())


@pytest.mark.parametrize("damage", [b"", b"{", b'{"offsetTable":7}', None])
def test_a_damaged_file_gives_way_to_the_one_before(tmp_path: Path, damage: bytes | None) -> None:
    file = tmp_path / "offsets.json"
    anyio.run(write, file, {QUEUE: 1})
    anyio.run(write, file, {QUEUE: 2})
    file.unlink() if damage is None else file.write_bytes(damage)
    assert anyio.run(read, file, [QUEUE]) == [1]


def test_a_damaged_file_never_replaces_its_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends before the new file has its name. The damaged file used to be the copy then."""
    file, replace = tmp_path / "offsets.json", Path.replace
    for offset in (1, 2):
        anyio.run(write, file, {QUEUE: offset})
    file.write_bytes(b"{")

    def replace_copy_alone(source: Path, target: Path) -> Path:
        if target == file:
            raise OSError("killed")
        return replace(source, target)

    monkeypatch.setattr(Path, "replace", replace_copy_alone)
    with pytest.raises(StorageError):
        anyio.run(write, file, {QUEUE: 3})
    monkeypatch.undo()
    assert anyio.run(read, file, [QUEUE]) == [1]


def test_two_damaged_files_are_said(tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    for name in ("offsets.json", "offsets.json.bak"):
        (tmp_path / name).write_bytes(b"?")
    with pytest.raises(StorageError, match=r"offsets\.json") as caught:
        LocalOffsetStore(file)
    assert caught.value.hint is not None


def test_a_file_that_cannot_be_written_is_said_and_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "group"

    async def try_twice() -> int | None:
        store = LocalOffsetStore(folder / "offsets.json")
        folder.write_text("a file where the folder belongs")
        await store.write(QUEUE, 7)
        with pytest.raises(StorageError):
            await store.flush()
        folder.unlink()
        await store.flush()
        return await LocalOffsetStore(folder / "offsets.json").read(QUEUE)

    assert anyio.run(try_twice) == 7
