"""POP on a store and a clock of the test's own, without a loop or a listener. A restart loads the saved state. A crash
is a restart from the offsets that were saved last."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import trio

from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.filters.message_filter import EVERYTHING
from rmqproto.headers.popping import AckHeader, ChangeInvisibleTimeHeader, PopHeader
from rmqproto.message import properties as props
from rmqproto.message.record import StoredMessage, decode_record_untrusted, decode_records_untrusted
from rmqproto.names import dlq_topic
from rmqproto.pop import NORMAL, Handle, parse_handle_untrusted, real_topic
from rmqserver.broker.consuming.pop.popping import Popped
from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.disk.disk import OsDisk
from rmqserver.store.message_store import MessageStore
from rmqserver.store.options import StoreOptions
from tests.rmqserver.broker.parts import parts_on
from tests.rmqserver.store.conftest import HOST, put
from tests.support.clock import Clock

TOPIC, GROUP = "T", "G"
OPTIONS = StoreOptions(commit_log_file_size_bytes=1 << 20, index_enabled=False)
CONNECTION: Any = SimpleNamespace(
    address="127.0.0.1:1", local_addr="127.0.0.1:10911", local_host=HOST, closed=False, sent=[]
)


class Taken(msgspec.Struct):
    """A popped message."""

    message: StoredMessage
    handle: Handle

    @property
    def body(self) -> bytes:
        return self.message.body


class Bench:
    """Changes to ``options`` apply from the next start on."""

    def __init__(self, directory: Path, settings: str = "", retry_max_times: int = 16, queue_nums: int = 2):
        self.clock = Clock()
        self.directory = directory
        self.options = OPTIONS
        self._settings = settings
        self._open()
        self.parts.load_pop(None)
        self.parts.topics.create_system(TOPIC, queue_nums)
        self.parts.groups.put(SubscriptionGroupConfig(group_name=GROUP, retry_max_times=retry_max_times))
        self.save_offsets()

    def _open(self) -> None:
        self.store = MessageStore(self.directory, self.options, clock_ms=self.clock, background=False)
        self.store.open()
        self.files = ConfigFiles(str(self.directory / "config"), OsDisk())
        self.parts = parts_on(self.store, self.files, self._settings)
        self.parts.topics.load()
        self.parts.groups.load()
        self.parts.offsets.load()

    def close(self) -> None:
        self.files.close()
        self.store.close()

    def save_offsets(self) -> None:
        self.parts.offsets.save()
        self.offsets_saved_ms = self.clock.now_ms
        self.clock.now_ms += 1  # later events get a later time

    def restart(self) -> None:
        self.store.flush()
        self.parts.save_pop()
        self.parts.offsets.save()
        self.close()
        self._open()
        self.parts.load_pop(None)

    def crash(self) -> None:
        self.close()
        self._open()
        self.parts.load_pop(self.offsets_saved_ms)

    # --- what clients and time do ------------------------------------------------------------------------------------

    def send(self, body: bytes, queue_id: int = 0, tags: str = "", properties: bytes = b"") -> None:
        put(self.store, TOPIC, queue_id, body, tags=tags, properties=properties)
        self.store.commit()

    def try_pop(self, count: int = 32, invisible_ms: int = 10_000, **more: Any) -> Popped:
        fields: dict[str, Any] = {"queue_id": -1, "init_mode": 0, "poll_time": 0} | more
        wanted = fields.pop("wanted", EVERYTHING)
        header = PopHeader(consumer_group=GROUP, topic=TOPIC, max_msg_nums=count, invisible_time=invisible_ms, **fields)
        popping = self.parts.popping
        sources = popping.sources(GROUP, TOPIC, header.queue_id, with_retries=not header.order)
        popped = popping.pop(header, popping.find(header, wanted, sources), HOST)
        self.store.commit()
        return popped

    def take(self, count: int = 32, invisible_ms: int = 10_000, **more: Any) -> list[Taken]:
        """Pops, and builds the handles as a client does."""
        popped = self.try_pop(count, invisible_ms, **more)
        return [
            Taken(message, self._handle(popped, message, invisible_ms))
            for message in decode_records_untrusted(b"".join(popped.chunks))
        ]

    def _handle(self, popped: Popped, message: StoredMessage, invisible_ms: int) -> Handle:
        carried = message.properties.get(props.POP_CK)
        if carried is not None:
            return parse_handle_untrusted(carried)
        start = popped.starts[NORMAL, message.queue_id]
        return Handle(
            start, popped.pop_time_ms, invisible_ms, popped.revive_queue_id, NORMAL, self.parts.config.broker_name,
            message.queue_id, message.queue_offset,
        )  # fmt: skip

    def ack(self, handle: Handle) -> None:
        self.parts.acks.ack(AckHeader(**self._fields(handle)), CONNECTION)
        self.store.commit()

    def change(self, handle: Handle, invisible_ms: int, *, suspend: bool | None = None) -> Handle:
        """Returns the message's new handle."""
        header = ChangeInvisibleTimeHeader(**self._fields(handle), invisible_time=invisible_ms, suspend=suspend)
        answer = self.parts.acks.change(header, CONNECTION)
        self.store.commit()
        return handle._replace(
            start_offset=handle.queue_offset, pop_time_ms=answer.pop_time, invisible_time_ms=answer.invisible_time
        )

    def _fields(self, handle: Handle) -> dict[str, Any]:
        return {
            "consumer_group": GROUP, "topic": real_topic(TOPIC, GROUP, handle.kind), "queue_id": handle.queue_id,
            "extra_info": str(handle), "offset": handle.queue_offset,
        }  # fmt: skip

    def revive(self) -> None:
        """Revives everything that is due now."""

        async def step() -> None:
            for queue_id in range(8):
                await self.parts.reviver.step(queue_id)

        trio.run(step)

    def wait(self, ms: int) -> None:
        self.clock.now_ms += ms
        self.revive()

    # --- what there is -----------------------------------------------------------------------------------------------

    def messages(self, topic: str, queue_id: int = 0) -> list[StoredMessage]:
        found = []
        for queue_offset in range(self.store.max_offset(topic, queue_id)):
            found += [
                decode_record_untrusted(one) for one in self.store.get(topic, queue_id, queue_offset, 1).records()
            ]
        return found

    @property
    def dead(self) -> list[bytes]:
        return [message.body for message in self.messages(dlq_topic(GROUP))]
