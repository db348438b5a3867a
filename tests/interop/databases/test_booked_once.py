"""Bookings and their records in one transaction of PostgreSQL: crashes, members side by side, conflicts, lost
answers."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rmqclient import LATER, SUCCESS, ConsumeFrom, Deduplication, Message, Producer, PushConsumer, ReceivedMessage
from rmqclient.deduplication import by_key
from rmqproto.message.properties import render
from tests.interop.postgresql import Postgresql
from tests.rmqclient.consuming.test_process_queue import TEMPLATE
from tests.support import servers
from tests.support.servers import Server

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("postgresql")]

TIMEOUT_S = 60
SERIALIZATION_FAILURE = "40001"


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Postgresql]:
    with Postgresql() as running:
        yield running


@pytest.fixture
def bookings(postgresql: Postgresql) -> Iterator[Callable[[], list[str]]]:
    """An empty table ``booking``, and a function that reads its keys."""
    with closing(postgresql.connect()) as db:
        cursor = db.cursor()
        cursor.execute("DROP TABLE IF EXISTS rmq_consumed")
        cursor.execute("DROP TABLE IF EXISTS booking")
        cursor.execute("CREATE TABLE booking (key TEXT)")
        db.commit()

        def read() -> list[str]:
            cursor.execute("SELECT key FROM booking ORDER BY key")
            keys = [key for (key,) in cursor.fetchall()]
            db.commit()
            return keys

        yield read


def message(keys: str = "order-7") -> ReceivedMessage:
    return ReceivedMessage(
        msgspec.structs.replace(TEMPLATE, properties_raw=render({"KEYS": keys}).encode()), "broker-a"
    )


def book(message: ReceivedMessage, cursor: Any) -> None:
    cursor.execute("INSERT INTO booking VALUES (%s)", (message.keys[0],))


def wait_blocked(postgresql: Postgresql) -> None:
    """Until a session waits for another one's transaction."""
    with closing(postgresql.connect()) as db:
        cursor = db.cursor()
        while True:
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
            if cursor.fetchone()[0]:
                return
            db.rollback()


@pytest.mark.parametrize("first_commits", [True, False])
@pytest.mark.parametrize("has_on_conflict", [True, False])
def test_two_members_with_one_message_book_it_once(
    has_on_conflict: bool, first_commits: bool, postgresql: Postgresql, bookings: Callable[[], list[str]]
) -> None:
    has_booked, may_end = threading.Event(), threading.Event()

    def slow(message: ReceivedMessage, cursor: Any) -> Any:
        book(message, cursor)
        has_booked.set()
        assert may_end.wait(TIMEOUT_S)
        return SUCCESS if first_commits else LATER

    with (
        Deduplication(postgresql.connect, key_of=by_key) as one,
        Deduplication(postgresql.connect, key_of=by_key) as other,
        ThreadPoolExecutor() as threads,
    ):
        one._has_on_conflict = other._has_on_conflict = has_on_conflict
        first = threads.submit(one.transaction(slow), message())
        assert has_booked.wait(TIMEOUT_S)
        second = threads.submit(other.transaction(book), message())
        wait_blocked(postgresql)
        may_end.set()
        assert first.result(TIMEOUT_S) == (SUCCESS if first_commits else LATER)
        assert second.result(TIMEOUT_S) == SUCCESS
    assert bookings() == ["order-7"]


@pytest.mark.parametrize("has_on_conflict", [True, False])
def test_a_duplicate_aborts_no_transaction(
    has_on_conflict: bool, postgresql: Postgresql, bookings: Callable[[], list[str]]
) -> None:
    """A failed statement makes PostgreSQL refuse all that follow in the transaction: also those of other messages."""
    with Deduplication(postgresql.connect, key_of=by_key) as once, closing(postgresql.connect()) as db:
        once._has_on_conflict = has_on_conflict
        cursor = db.cursor()
        for key in ("1", "2", "1", "3"):
            if once.is_first(cursor, message(key)):
                book(message(key), cursor)
        db.commit()
    assert bookings() == ["1", "2", "3"]


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_conflict_is_rolled_back_and_the_message_is_booked_when_it_comes_again(
    isolation: str, postgresql: Postgresql, bookings: Callable[[], list[str]]
) -> None:
    def connect() -> Any:
        db = postgresql.connect()
        db.cursor().execute(f"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {isolation}")
        db.commit()
        return db

    with Deduplication(connect, key_of=by_key) as once:
        with closing(connect()) as one, closing(connect()) as other:
            late = other.cursor()
            late.execute("SELECT count(*) FROM booking")  # its view of the data is from before the other's commit
            cursor = one.cursor()
            assert once.is_first(cursor, message())
            book(message(), cursor)
            one.commit()
            with pytest.raises(Exception, match=SERIALIZATION_FAILURE):
                once.is_first(late, message())
            other.rollback()
        assert once.transaction(book)(message()) == SUCCESS
        assert once.transaction(book)(message("order-8")) == SUCCESS
    assert bookings() == ["order-7", "order-8"]


def test_a_lost_answer_to_a_commit_books_nothing_twice(
    postgresql: Postgresql, bookings: Callable[[], list[str]]
) -> None:
    loses = True

    class Lossy:
        def __init__(self) -> None:
            self._db = postgresql.connect()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._db, name)

        def commit(self) -> None:
            self._db.commit()
            if loses and bookings():
                self._db.close()
                raise OSError("connection lost")

    with Deduplication(Lossy, key_of=by_key, paramstyle="format") as once:
        listener = once.transaction(book)
        with pytest.raises(OSError, match="connection lost"):
            listener(message())
        loses = False
        assert listener(message()) == SUCCESS
    assert bookings() == ["order-7"]


CONSUMER = """
import sys, threading
import pg8000.dbapi
from rmqclient import *

namesrv_addr, topic, group, port, dies = sys.argv[1:]

def book(message, cursor):
    cursor.execute("INSERT INTO booking VALUES (%s)", (message.keys[0],))
    if dies == "dies" and message.keys == ["order-7"]:
        print("booked, not committed", flush=True)
        threading.Event().wait()

def connect():
    return pg8000.dbapi.connect(user="postgres", host="127.0.0.1", port=int(port))

with Deduplication(connect, key_of=by_key) as once:
    listener = once.transaction(book)
    with PushConsumer.blocking(
        namesrv_addr, group, {topic: "*"}, listener, concurrency=1, consume_from=ConsumeFrom.FIRST_OFFSET
    ):
        threading.Event().wait()
"""


server = servers.of_module()


def test_a_consumer_killed_between_record_and_commit(
    server: Server, postgresql: Postgresql, bookings: Callable[[], list[str]], tmp_path: Path
) -> None:
    arguments = (server.namesrv_addr, "Killed", "killed", str(postgresql.port), "dies")
    with Producer.blocking(server.namesrv_addr, "p") as producer:
        for key in ("order-6", "order-7", "order-7", "order-8"):
            producer.send(Message("Killed", b"9", keys=key, sharding_key="one queue"))
    with subprocess.Popen([sys.executable, "-c", CONSUMER, *arguments], stdout=subprocess.PIPE) as consumer:
        try:
            assert consumer.stdout is not None
            assert consumer.stdout.readline() == b"booked, not committed\n"
        finally:
            consumer.send_signal(signal.SIGKILL)
    assert bookings() == ["order-6"]

    seen: list[str] = []
    all_came = threading.Event()
    with Deduplication(postgresql.connect, key_of=by_key) as once:
        book_once = once.transaction(book)

        def listener(message: ReceivedMessage) -> Any:
            status = book_once(message)
            seen.append(message.keys[0])
            if len(seen) == 4:
                all_came.set()
            return status

        with PushConsumer.blocking(
            server.namesrv_addr, "killed", {"Killed": "*"}, listener, concurrency=1,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ):  # fmt: skip
            assert all_came.wait(TIMEOUT_S), seen
    assert bookings() == ["order-6", "order-7", "order-8"]
