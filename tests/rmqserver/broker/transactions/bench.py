"""Transactions on a store and a clock of the test's own, without a loop, with producers that record their checks."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple, cast

from rmqproto.codes import VERSION
from rmqproto.headers.base import Header
from rmqproto.headers.sending import COMMIT, CheckTransactionHeader, EndTransactionHeader
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, decode_record_untrusted
from rmqproto.names import TRANSACTION_HALF_TOPIC
from rmqserver.core import Appended
from rmqserver.remoting.connection import Connection
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import Disk
from rmqserver.store.message_store import MessageStore
from rmqserver.store.new_message import NewMessage
from rmqserver.store.options import FlushMode, StoreOptions
from tests.rmqserver.broker.parts import parts_on
from tests.rmqserver.store.conftest import HOST
from tests.support.clock import Clock

GROUP = "ProducerGroup"
TIMEOUT_MS = 6000


class Asked(NamedTuple):
    """A check as a producer gets it."""

    header: CheckTransactionHeader
    message: StoredMessage


class Asker:
    """Stands for a connection to a producer."""

    is_listening = True

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def notify(self, code: int, header: Header, body: bytes = b"") -> None:
        assert code == 39
        assert isinstance(header, CheckTransactionHeader)
        self.asked.append(Asked(header, decode_record_untrusted(body)))


class Bench:
    """``close`` it, or call ``killed`` and go on with its result. ``disk`` replaces the operating system's."""

    def __init__(
        self,
        directory: Path,
        settings: str = "",
        flush_mode: FlushMode = FlushMode.ASYNC,
        clock: Any = None,
        disk: Disk | None = None,
    ):
        self.directory = directory
        self.clock = clock or Clock()
        self._settings = settings
        self._flush_mode = flush_mode
        options = StoreOptions(
            flush_mode=flush_mode, commit_log_file_size_bytes=1 << 16, consume_queue_file_size_bytes=100 * 20,
            index_slot_count=100, index_unit_count=1000, delay_levels_ms=(1000,), message_size_max_bytes=1000,
        )  # fmt: skip
        self.store = MessageStore(directory, options, disk, clock_ms=self.clock, background=False)
        self.was_clean = self.store.open().was_clean
        self.files = ConfigFiles(str(directory / "config"), self.store.disk, background=disk is None)
        self.parts = parts_on(self.store, self.files, settings)
        self.parts.topics.load()
        self.parts.offsets.load()
        if not self.was_clean:
            self.parts.offsets.hold_back(self.store.max_offset)
        self.put = self.parts.put
        self.transactions = self.parts.transactions
        self.transactions.load()
        self.producers: list[Asker] = []
        self.add_producer()

    def add_producer(self) -> None:
        producer = Asker()
        self.producers.append(producer)
        connection = cast(Connection, producer)
        self.parts.clients.register_producer(GROUP, f"client-{len(self.producers)}", connection, "JAVA", VERSION)

    def remove_producer(self, producer: Asker) -> None:
        self.parts.clients.peer_gone(cast(Connection, producer))

    @property
    def asked(self) -> list[Asked]:
        return [asked for producer in self.producers for asked in producer.asked]

    # --- what a broker does ------------------------------------------------------------------------------------------

    def send_half(self, body: bytes = b"body", **properties: str) -> Appended:
        """Stores a half message, as a producer's send does."""
        text = {props.TRAN_MSG: "true", props.PRODUCER_GROUP: GROUP, props.UNIQUE_KEY: f"KEY-{body.hex()}"}
        message = NewMessage(
            topic="T", queue_id=0, flag=7, sys_flag=4, born_timestamp_ms=self.clock.now_ms, born_host=HOST,
            store_host=HOST, reconsume_times=0, body=body, properties=text | properties,
        )  # fmt: skip
        self.parts.rewrites.half_message(message)
        appended = self.put.put(message)
        self.parts.pending.end_round()
        return appended

    def end(self, half: Appended | Asked, decision: int = COMMIT, **fields: Any) -> None:
        """Ends a transaction as a producer does, with the data of its send or of a check. Raises Refused."""
        header, ends = _ending(half, decision, **fields), self.parts.transaction_ends
        (ends.commit if decision == COMMIT else ends.roll_back)(header, ends.record(header.commit_log_offset))
        self.parts.pending.end_round()

    def is_over(self, half: Appended | Asked, decision: int = COMMIT) -> bool:
        header, ends = _ending(half, decision), self.parts.transaction_ends
        return ends.is_over(header, ends.record(header.commit_log_offset))

    async def check(self, after_ms: int = TIMEOUT_MS + 1) -> list[Asked]:
        """Runs a round of checks some time later; returns the checks that producers got."""
        self.clock.now_ms += after_ms
        before = len(self.asked)
        await self.transactions.check()
        self.flush()
        return self.asked[before:]

    def write_op_messages(self) -> None:
        self.transactions.write_op_messages()
        self.parts.pending.end_round()

    def flush(self) -> None:
        """Flushes, and does what follows a flush."""
        self.store.flush()
        self.parts.pending.settle()

    def save(self) -> None:
        """Saves twice, because the first save leaves out what is not flushed yet."""
        for _ in range(2):
            self.transactions.state.save_when_kept()
            self.flush()
        self.parts.offsets.save()
        self.files.wait_until_saved()

    # --- what can be seen --------------------------------------------------------------------------------------------

    def stored(self, topic: str, queue_id: int = 0) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        while records := self.store.get(topic, queue_id, len(found), 32).records():
            found += map(decode_record_untrusted, records)
        return found

    def bodies(self, topic: str = "T") -> list[bytes]:
        return [message.body for message in self.stored(topic)]

    @property
    def half_messages(self) -> list[StoredMessage]:
        return self.stored(TRANSACTION_HALF_TOPIC)

    # --- its end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stops as a broker does."""
        self.write_op_messages()
        self.flush()
        self.transactions.save()
        self.parts.offsets.save()
        self.files.close()
        self.store.close()

    def restarted(self) -> Bench:
        self.close()
        return self.started_again()

    def started_again(self) -> Bench:
        """A new broker on the same store. This one is closed."""
        return Bench(self.directory, self._settings, self._flush_mode, self.clock)

    def abandon(self) -> None:
        """Leaves on the test's own disk what kill -9 leaves."""
        self.files.close()
        self.store.abandon()

    def killed(self) -> Bench:
        """A new broker on what kill -9 would leave now. This one is closed."""
        self.files.wait_until_saved()
        copy = self.directory.with_name(self.directory.name + "-killed")
        shutil.copytree(self.directory, copy, ignore=shutil.ignore_patterns("lock"))
        self.files.close()
        self.store.close()
        return Bench(copy, self._settings, self._flush_mode, self.clock)


def _ending(half: Appended | Asked, decision: int, **fields: Any) -> EndTransactionHeader:
    asked = half.header if isinstance(half, Asked) else None
    return EndTransactionHeader(
        **{
            "producer_group": GROUP,
            "tran_state_table_offset": asked.tran_state_table_offset if asked else half.queue_offset,
            "commit_log_offset": asked.commit_log_offset if asked else half.log_offset,
            "commit_or_rollback": decision,
            "from_transaction_check": asked is not None,
            "msg_id": "",
            **fields,
        }  # type: ignore[union-attr]
    )
