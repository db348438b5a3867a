"""Skips messages that were consumed before. Delivery is at least once, and some applications want exactly once.

Consumed messages are recorded in a table of a SQLite file or of any database that Python's DB-API reaches, which all
members of the group share. Only a record in one transaction with the application's own booking is exact (``is_first``,
``transaction``). ``listener`` records a message after the listener has consumed it: it comes again after a crash in
between, or if two machines get it at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import re
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.to_thread

from rmqclient.listener import LATER, SUCCESS, AsyncListener, ConsumeStatus, Listener, as_async
from rmqclient.message import ReceivedMessage
from rmqproto.errors import StorageError, UsageError

KEEP_S = 7 * 24 * 3600.0
"""Longer than a broker usually keeps messages (72 h), so that resetting an offset to an earlier one repeats nothing."""

FORGET_EVERY_COUNT = 1000
"""Messages between two purges of old entries; one is also made at the start."""

BUSY_TIMEOUT_S = 10.0
"""How long one process waits for another one that writes to the SQLite file."""

TABLE = "rmq_consumed"

Connection = Any
Cursor = Any
"""As of PEP 249: drivers share no types."""

KeyOf = Callable[[ReceivedMessage], str]
"""Two messages of a topic with the same key are the same message. A message with an empty key equals no other."""

Book = Callable[[ReceivedMessage, Cursor], ConsumeStatus | None]
"""The application's statements for one message. It neither commits nor rolls back; raising, or a status other than
success, undoes all of them."""


def by_unique_key(message: ReceivedMessage) -> str:
    """The id that the producer's client gave the message. It matches a send that was stored twice and a message that
    was delivered twice."""
    return message.message_id


def by_key(message: ReceivedMessage) -> str:
    """The keys that the application gave the message. They also match two sends of one order."""
    return " ".join(message.keys)


class Deduplication:
    """``with Deduplication(Path("consumed.db")) as once: PushConsumer(..., once.listener(mine))``, or
    ``with Deduplication(connect) as once: PushConsumer(..., once.transaction(book))``."""

    def __init__(
        self,
        database: Path | Callable[[], Connection],
        *,
        key_of: KeyOf = by_unique_key,
        keep_s: float = KEEP_S,
        table: str = TABLE,
        paramstyle: str | None = None,
    ):
        """``database``: a SQLite file, or a function that opens a DB-API connection, which any thread may use. Each
        group needs a ``table`` of its own; it is made if it is not there. Entries are dropped after ``keep_s``.
        ``paramstyle``: the driver's, by default what its module declares.

        StorageError for a database that cannot be used. UsageError for connections that commit by themselves, and for
        an unknown ``paramstyle``."""
        if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", table, re.ASCII):
            raise UsageError(f"{table!r} is no name of a table", hint="Letters, digits and _, as in app.rmq_consumed.")
        self._file = database if isinstance(database, Path) else None
        self._connect = _sqlite(database, "NORMAL") if isinstance(database, Path) else database
        self._key_of = key_of
        self._keep_s = keep_s
        self._table = table
        self._seen_count = 0
        self._running: set[str] = set()
        self._idle: list[Connection] = []
        self._is_closed = False
        self._one_at_a_time = anyio.CapacityLimiter(1)
        try:
            with self._errors(), self._connection() as connection:
                self._paramstyle = paramstyle or _paramstyle_of(connection)
                if self._paramstyle not in _PLACEHOLDERS:
                    raise UsageError(f"paramstyle {self._paramstyle!r} is none of {', '.join(_PLACEHOLDERS)}")
                self._make_table(connection)
                self._has_on_conflict = True
                self._try_out(connection)
                self._forget(connection)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections; those in use, once they are free."""
        self._is_closed = True
        self._close_idle()

    # --- one transaction with the booking ----------------------------------------------------------------------------

    def transaction(self, book: Book) -> Callable[[ReceivedMessage], ConsumeStatus]:
        """A listener that calls ``book(message, cursor)`` for a message that is not recorded, and commits the record
        and what ``book`` did together. It runs in the consumer's threads, each with a connection of its own."""
        if inspect.iscoroutinefunction(book):
            raise UsageError(f"{book.__name__} is async, and a DB-API cursor blocks", hint="Use a plain function.")
        if self._file is not None:  # a power cut may not take a booking back whose offset the broker has stored
            self._connect = _sqlite(self._file, "FULL")
            self._close_idle()

        def once(message: ReceivedMessage) -> ConsumeStatus:
            with self._connection() as connection:
                self._forget_sometimes(connection)
                cursor = connection.cursor()
                status = SUCCESS
                if self.is_first(cursor, message):
                    status = book(message, cursor) or SUCCESS
                if status.is_success:
                    connection.commit()
                else:
                    connection.rollback()
                return status

        return once

    def is_first(self, cursor: Cursor, message: ReceivedMessage) -> bool:
        """Records the message in the transaction of a cursor of your own, which your booking shares and you commit;
        False if it is recorded already. While another transaction records the same message, it waits for that one's
        end. Errors are the driver's, such as a conflict of serializable transactions: roll back, and the message comes
        again."""
        entry = self._entry(message)
        return entry is None or self._record(cursor, entry)

    def forget(self) -> None:
        """Drops old entries. ``listener`` and ``transaction`` do that; with ``is_first`` alone, call it now and then.
        StorageError."""
        with self._errors(), self._connection() as connection:
            self._forget(connection)

    # --- a record afterwards -----------------------------------------------------------------------------------------

    def listener(self, listener: Listener, *, thread_count: int = 20) -> AsyncListener:
        """A listener that passes to ``listener`` only what it has not consumed yet. A second copy of a message that is
        being consumed right now comes again later. A StorageError also makes the message come again. ``thread_count``
        is for a ``listener`` that is a plain function."""
        consume = as_async(listener, anyio.CapacityLimiter(thread_count))

        async def once(message: ReceivedMessage) -> ConsumeStatus:
            entry = self._entry(message)
            if entry is None:
                return await consume(message) or SUCCESS
            if entry in self._running:
                return LATER
            self._running.add(entry)
            try:
                if await self._run(self._find, entry):
                    return SUCCESS
                status = await consume(message) or SUCCESS
                if status.is_success:
                    await self._run(self._record, entry)
                return status
            finally:
                self._running.discard(entry)

        return once

    async def is_consumed(self, message: ReceivedMessage) -> bool:
        """Whether the message is recorded. StorageError."""
        entry = self._entry(message)
        return entry is not None and await self._run(self._find, entry)

    async def _run(self, do: Callable[[Cursor, str], bool], entry: str) -> bool:
        def run() -> bool:
            with self._errors(), self._connection() as connection:
                self._forget_sometimes(connection)
                result = do(connection.cursor(), entry)
                connection.commit()
                return result

        return await anyio.to_thread.run_sync(run, limiter=self._one_at_a_time)

    # --- the table ---------------------------------------------------------------------------------------------------

    def _entry(self, message: ReceivedMessage) -> str | None:
        """A digest: databases differ in how long a key may be, and in whether "a" equals "A"."""
        key = self._key_of(message)
        return hashlib.sha256(f"{message.topic}\0{key}".encode()).hexdigest() if key else None

    def _execute(self, cursor: Cursor, sql: str, *values: object) -> None:
        """``sql`` with {table}, and {0}, {1} for the values."""
        mark, is_by_name = _PLACEHOLDERS[self._paramstyle]
        marks = [mark.format(number + 1) for number in range(len(values))]
        sql = sql.format(*marks, table=self._table)
        if not values:
            cursor.execute(sql)
        elif is_by_name:
            cursor.execute(sql, {f"p{number + 1}": value for number, value in enumerate(values)})
        else:
            cursor.execute(sql, values)

    def _find(self, cursor: Cursor, entry: str) -> bool:
        self._execute(cursor, "SELECT 1 FROM {table} WHERE message = {0}", entry)
        return cursor.fetchone() is not None

    def _record(self, cursor: Cursor, entry: str) -> bool:
        """Whether it is new. A duplicate must not abort the transaction, as a failed statement does in PostgreSQL."""
        insert = "INSERT INTO {table} (message, consumed_s) VALUES ({0}, {1})"
        if self._has_on_conflict:
            self._execute(cursor, f"{insert} ON CONFLICT DO NOTHING", entry, time.time())
            return bool(cursor.rowcount == 1)
        self._execute(cursor, "SAVEPOINT rmq_first")
        try:
            self._execute(cursor, insert, entry, time.time())
        except Exception:  # drivers have no common error; whether it is a duplicate is what the table says
            self._execute(cursor, "ROLLBACK TO SAVEPOINT rmq_first")
            if not self._find(cursor, entry):
                raise
            return False
        return True

    def _forget_sometimes(self, connection: Connection) -> None:
        self._seen_count += 1
        if self._seen_count % FORGET_EVERY_COUNT == 0:
            self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        """In a transaction of its own, which conflicts with no booking."""
        old_s = time.time() - self._keep_s
        self._execute(connection.cursor(), "DELETE FROM {table} WHERE consumed_s < {0}", old_s)
        connection.commit()

    def _make_table(self, connection: Connection) -> None:
        """Without IF NOT EXISTS, which not all databases know."""
        if self._has_table(connection):
            return
        index = self._table.replace(".", "_") + "_by_time"
        try:
            cursor = connection.cursor()
            columns = "(message VARCHAR(64) NOT NULL PRIMARY KEY, consumed_s DOUBLE PRECISION NOT NULL)"
            self._execute(cursor, f"CREATE TABLE {{table}} {columns}")
            self._execute(cursor, f"CREATE INDEX {index} ON {{table}} (consumed_s)")
            connection.commit()
        except Exception:
            connection.rollback()
            if not self._has_table(connection):  # another member has made it meanwhile
                raise

    def _has_table(self, connection: Connection) -> bool:
        try:
            self._execute(connection.cursor(), "SELECT message, consumed_s FROM {table} WHERE 1 = 0")
        except Exception:  # of a kind that each driver names differently; making the table tells the reason
            connection.rollback()
            return False
        connection.rollback()
        return True

    def _try_out(self, connection: Connection) -> None:
        """Finds out how this database refuses a duplicate, and that a rollback takes a record back."""
        probe = uuid.uuid4().hex
        try:
            works = self._is_first_once(connection, probe)
        except Exception:  # a syntax error, of each driver's own kind
            works = False
        connection.rollback()
        if not works:
            self._has_on_conflict = False
            works = self._is_first_once(connection, probe)
            connection.rollback()
        cursor = connection.cursor()
        commits_alone = self._find(cursor, probe)
        self._execute(cursor, "DELETE FROM {table} WHERE message = {0}", probe)
        connection.commit()
        if commits_alone:
            raise UsageError(
                "the connections commit each statement by themselves, so that no booking can be undone",
                hint="Open them without autocommit.",
            )
        if not works:
            raise StorageError(f"{self._table}: a second record of the same message is not refused")

    def _is_first_once(self, connection: Connection, entry: str) -> bool:
        cursor = connection.cursor()
        return [self._record(cursor, entry), self._record(cursor, entry)] == [True, False]

    # --- connections -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Connection]:
        """One that nobody else uses meanwhile. After an error it is rolled back, or closed with all idle ones if it
        does not answer any more: the database may have started again."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            yield connection
        except BaseException:
            if not self._is_usable(connection):
                with contextlib.suppress(Exception):
                    connection.close()
                self._close_idle()
                connection = None
            raise
        finally:
            if connection is not None:
                self._idle.append(connection)
                if self._is_closed:
                    self._close_idle()

    def _is_usable(self, connection: Connection) -> bool:
        """Rolls back. Some drivers only do that if they know of a transaction, and so say nothing of a connection that
        is gone."""
        try:
            connection.rollback()
            return self._has_table(connection)
        except Exception:  # as each driver says that it is gone
            return False

    def _close_idle(self) -> None:
        while self._idle:
            with contextlib.suppress(Exception, IndexError):  # it may be gone, or another thread's
                self._idle.pop().close()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (StorageError, UsageError):
            raise
        except Exception as error:  # DB-API drivers have no common base for their errors
            raise StorageError(f"{self._file or self._table}: {error}") from error


# --- drivers ---------------------------------------------------------------------------------------------------------

_PLACEHOLDERS = {
    "qmark": ("?", False),
    "format": ("%s", False),
    "numeric": (":{}", False),
    "named": (":p{}", True),
    "pyformat": ("%(p{})s", True),
}
"""By ``paramstyle``: how the parameter of a number is written, and whether they are given by name."""


def _paramstyle_of(connection: Connection) -> str:
    """As the module of the connection's class declares, or a package around it. UsageError."""
    for kind in type(connection).__mro__:
        name = kind.__module__
        while name:
            style = getattr(sys.modules.get(name), "paramstyle", None)
            if isinstance(style, str):
                return style
            name = name.rpartition(".")[0]
    raise UsageError(
        f"no module of {type(connection).__module__}.{type(connection).__qualname__} declares a paramstyle",
        hint='Give the driver\'s, as in paramstyle="format".',
    )


def _sqlite(file: Path, synchronous: str) -> Callable[[], Connection]:
    """``synchronous`` NORMAL: a power cut may take the last records back, never the file."""
    import sqlite3  # some Pythons are built without it

    def connect() -> Connection:
        db = sqlite3.connect(file, timeout=BUSY_TIMEOUT_S, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"PRAGMA synchronous = {synchronous}")
        except BaseException:
            db.close()
            raise
        return db

    return connect
