"""Messages that were already consumed are skipped, wherever they come from."""

from pathlib import Path

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqclient import deduplication
from rmqclient.deduplication import Deduplication, by_key
from rmqclient.listener import LATER, SUCCESS, ConsumeStatus
from rmqclient.message import ReceivedMessage
from rmqproto.errors import StorageError
from rmqproto.message.properties import render
from tests.rmqclient.collector import Collector
from tests.rmqclient.consuming.test_process_queue import TEMPLATE

pytest.importorskip("sqlite3", reason="a Python that was built without SQLite", exc_type=ImportError)

pytestmark = pytest.mark.anyio


def message(unique_key: str = "id", keys: str = "", body: bytes = b"x") -> ReceivedMessage:
    raw = render({"UNIQ_KEY": unique_key, "KEYS": keys}).encode()
    return ReceivedMessage(msgspec.structs.replace(TEMPLATE, properties_raw=raw, body=body), "broker-a")


async def test_a_message_is_consumed_once_also_after_a_restart(tmp_path: Path) -> None:
    collect = Collector()
    for _ in range(2):
        with Deduplication(tmp_path / "consumed.db") as once:
            listener = once.listener(collect)
            assert await listener(message("one", body=b"1")) == SUCCESS
            assert await listener(message("one", body=b"1")) == SUCCESS
    assert collect.bodies == [b"1"]


async def test_what_was_not_consumed_comes_again(tmp_path: Path) -> None:
    answers = [LATER, SUCCESS]
    collect = Collector(lambda message: answers.pop(0))
    with Deduplication(tmp_path / "consumed.db") as once:
        listener = once.listener(collect)
        assert await listener(message()) == LATER
        assert not await once.is_consumed(message())
        assert await listener(message()) == SUCCESS
        assert await once.is_consumed(message())
    assert len(collect.bodies) == 2


async def test_by_key_two_sends_are_one_and_without_keys_each_is_its_own(tmp_path: Path) -> None:
    collect = Collector()
    with Deduplication(tmp_path / "consumed.db", key_of=by_key) as once:
        listener = once.listener(collect)
        for unique_key, keys in [("1", "order-7"), ("2", "order-7"), ("3", ""), ("4", "")]:
            await listener(message(unique_key, keys, unique_key.encode()))
    assert collect.bodies == [b"1", b"3", b"4"]


async def test_a_second_copy_waits_for_the_first(tmp_path: Path) -> None:
    """If the second copy were skipped at once and the first then failed, the message would be lost."""
    go, begun = anyio.Event(), anyio.Event()
    answers: list[ConsumeStatus] = []

    async def slow(message: ReceivedMessage) -> None:
        begun.set()
        await go.wait()

    with Deduplication(tmp_path / "consumed.db") as once:
        listener = once.listener(slow)

        async def first() -> None:
            answers.append(await listener(message()) or SUCCESS)

        async with anyio.create_task_group() as nursery:
            nursery.start_soon(first)
            await begun.wait()
            assert await listener(message()) == LATER
            go.set()
    assert answers == [SUCCESS]


async def test_old_entries_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deduplication, "FORGET_EVERY_COUNT", 2)
    with Deduplication(tmp_path / "consumed.db", keep_s=-1.0) as once:
        listener = once.listener(Collector())
        await listener(message("one"))
        assert await once.is_consumed(message("one"))
        await listener(message("two"))
        assert not await once.is_consumed(message("one"))


async def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    (tmp_path / "consumed.db").write_bytes(b"no database" * 100)
    with pytest.raises(StorageError, match=r"consumed\.db"):
        Deduplication(tmp_path / "consumed.db")


@settings(max_examples=20)
@given(ids=st.lists(st.sampled_from("abcdef"), max_size=20))
async def test_each_id_is_consumed_once_in_any_order(ids: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    collect = Collector()
    with Deduplication(tmp_path_factory.mktemp("once") / "consumed.db") as once:
        listener = once.listener(collect)
        for each in ids:
            await listener(message(each, body=each.encode()))
    assert collect.bodies == [each.encode() for each in dict.fromkeys(ids)]
