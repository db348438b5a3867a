"""Messages that were already consumed are skipped, wherever they come from."""

import contextlib
import re
import threading
from pathlib import Path
from typing import Any, Self, cast

import anyio
import anyio.to_thread
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqclient import deduplication
from rmqclient.deduplication import Deduplication, by_key
from rmqclient.listener import LATER, SUCCESS, ConsumeStatus
from rmqclient.message import ReceivedMessage
from rmqproto.errors import StorageError, UsageError
from rmqproto.message.properties import render
from tests.rmqclient.collector import TIMEOUT_S, Collector
from tests.rmqclient.consuming.test_process_queue import TEMPLATE

pytest.importorskip("sqlite3", reason="a Python that was built without SQLite", exc_type=ImportError)
import sqlite3

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
    monkeypatch.setattr(deduplication, "FORGET_EVERY_COUNT", 3)  # what is asked for and recorded counts
    with Deduplication(tmp_path / "consumed.db", keep_s=-1.0) as once:
        await once.listener(Collector())(message("one"))
        assert not await once.is_consumed(message("one"))
    with Deduplication(tmp_path / "consumed.db", keep_s=60.0) as once:
        await once.listener(Collector())(message("one"))
    with Deduplication(tmp_path / "consumed.db", keep_s=-1.0) as once:
        assert not await once.is_consumed(message("one"))


async def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    (tmp_path / "consumed.db").write_bytes(b"no database" * 100)
    with pytest.raises(StorageError, match=r"consumed\.db"):
        Deduplication(tmp_path / "consumed.db")


@settings(max_examples=8)  # each makes a file
@given(ids=st.lists(st.sampled_from("abcdef"), max_size=20))
async def test_each_id_is_consumed_once_in_any_order(ids: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    collect = Collector()
    with Deduplication(tmp_path_factory.mktemp("once") / "consumed.db") as once:
        listener = once.listener(collect)
        for each in ids:
            await listener(message(each, body=each.encode()))
    assert collect.bodies == [each.encode() for each in dict.fromkeys(ids)]


# --- one transaction with the booking --------------------------------------------------------------------------------


class Translated:
    """A driver of another ``paramstyle`` than SQLite's, whose database may lack ON CONFLICT."""

    def __init__(self, file: Path, style: str, has_on_conflict: bool):
        self._db = sqlite3.connect(file, check_same_thread=False)
        self._style, self._has_on_conflict = style, has_on_conflict
        self.rowcount = -1
        self.commit, self.rollback, self.close = self._db.commit, self._db.rollback, self._db.close

    def cursor(self) -> Self:
        self._cursor = self._db.cursor()
        return self

    def execute(self, sql: str, parameters: Any = ()) -> None:
        if "ON CONFLICT" in sql and not self._has_on_conflict:
            raise sqlite3.OperationalError("syntax error")
        assert isinstance(parameters, dict) == (self._style in ("named", "pyformat") and bool(parameters))
        mark = {"format": "%s", "numeric": r":\d", "named": r":(\w+)", "pyformat": r"%\((\w+)\)s", "qmark": r"\?"}
        names = re.findall(mark[self._style], sql)
        values = [parameters[name] for name in names] if isinstance(parameters, dict) else list(parameters)
        assert len(names) == len(values)
        self._cursor.execute(re.sub(mark[self._style], "?", sql), values)
        if self._has_on_conflict:
            self.rowcount = self._cursor.rowcount

    def fetchone(self) -> Any:
        return self._cursor.fetchone()


def account(tmp_path: Path) -> Path:
    file = tmp_path / "account.db"
    with contextlib.closing(sqlite3.connect(file)) as db, db:
        db.execute("CREATE TABLE account (euros INTEGER)")
        db.execute("INSERT INTO account VALUES (0)")
    return file


def euros(file: Path) -> int:
    with contextlib.closing(sqlite3.connect(file)) as db:
        return int(db.execute("SELECT euros FROM account").fetchone()[0])


def book(message: ReceivedMessage, cursor: Any) -> None:
    cursor.execute("UPDATE account SET euros = euros + 7")


@pytest.mark.parametrize("has_on_conflict", [True, False])
@pytest.mark.parametrize("style", ["qmark", "format", "pyformat", "numeric", "named"])
def test_a_booking_and_its_record_are_one_transaction_with_any_driver(
    style: str, has_on_conflict: bool, tmp_path: Path
) -> None:
    file = account(tmp_path)
    with Deduplication(lambda: Translated(file, style, has_on_conflict), paramstyle=style) as once:
        listener = once.transaction(book)
        assert [listener(message(each)) for each in ("1", "2", "1")] == [SUCCESS] * 3
    assert euros(file) == 14


def test_a_booking_that_fails_leaves_no_record(tmp_path: Path) -> None:
    file = account(tmp_path)
    answers: list[Any] = [ValueError("no"), LATER, None]

    def sometimes(message: ReceivedMessage, cursor: Any) -> ConsumeStatus | None:
        book(message, cursor)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return cast("ConsumeStatus | None", answer)

    with Deduplication(file) as once:
        listener = once.transaction(sometimes)
        with pytest.raises(ValueError, match="no"):
            listener(message())
        assert [listener(message()) for _ in range(3)] == [LATER, SUCCESS, SUCCESS]
    assert euros(file) == 7


async def test_of_two_at_once_the_second_waits_and_books_if_the_first_fails(tmp_path: Path) -> None:
    file = account(tmp_path)
    begun, go = threading.Event(), threading.Event()

    def slow(message: ReceivedMessage, cursor: Any) -> ConsumeStatus:
        book(message, cursor)
        if message.body == b"first":
            begun.set()
            assert go.wait(TIMEOUT_S)
            return LATER
        return SUCCESS

    with Deduplication(file) as one, Deduplication(file) as other:
        async with anyio.create_task_group() as nursery:
            nursery.start_soon(anyio.to_thread.run_sync, one.transaction(slow), message(body=b"first"))
            assert await anyio.to_thread.run_sync(begun.wait, TIMEOUT_S)
            nursery.start_soon(anyio.to_thread.run_sync, other.transaction(slow), message(body=b"second"))
            go.set()
    assert euros(file) == 7


def test_a_transaction_of_the_applications_own(tmp_path: Path) -> None:
    file = account(tmp_path)
    with Deduplication(file) as once, contextlib.closing(sqlite3.connect(file)) as db:
        for ends in (db.rollback, db.commit, db.commit):
            cursor = db.cursor()
            if once.is_first(cursor, message()):
                book(message(), cursor)
            ends()
        assert once.is_first(db.cursor(), message(unique_key="a"))
        assert once.is_first(db.cursor(), message(unique_key="A"))
        db.commit()
        once.forget()
        assert not once.is_first(db.cursor(), message(unique_key="a"))
    assert euros(file) == 7


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"table": "rmq; DROP TABLE account"}, "is no name of a table"),
        ({"paramstyle": "percent"}, "paramstyle 'percent' is none of qmark"),
        ({}, "commit each statement by themselves"),
    ],
)
def test_what_cannot_be_exact_is_refused(arguments: dict[str, str], told: str, tmp_path: Path) -> None:
    def connect() -> sqlite3.Connection:
        return sqlite3.connect(account(tmp_path), isolation_level=None)

    with pytest.raises(UsageError, match=told):
        Deduplication(connect, **arguments)


def test_a_driver_that_declares_no_paramstyle_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"test_deduplication\.Translated declares a paramstyle"):
        Deduplication(lambda: Translated(tmp_path / "x.db", "qmark", True))


def test_an_async_booking_is_refused(tmp_path: Path) -> None:
    async def later(message: ReceivedMessage, cursor: Any) -> None: ...

    with Deduplication(tmp_path / "x.db") as once, pytest.raises(UsageError, match="later is async"):
        once.transaction(later)  # type: ignore[arg-type]


def test_a_database_that_is_gone_makes_messages_come_again_and_is_connected_anew(tmp_path: Path) -> None:
    file, opened = account(tmp_path), []

    class Breakable(sqlite3.Connection):
        is_gone = False

        def cursor(self, *args: Any) -> Any:
            if self.is_gone:
                raise sqlite3.OperationalError("gone")
            return super().cursor(*args)

    def connect() -> Breakable:
        opened.append(sqlite3.connect(file, check_same_thread=False, factory=Breakable))
        return opened[-1]

    with Deduplication(connect) as once:
        listener = once.transaction(book)
        opened[0].is_gone = True
        with pytest.raises(sqlite3.OperationalError, match="gone"):
            listener(message())
        assert listener(message()) == SUCCESS
    assert (euros(file), len(opened)) == (7, 2)
