"""A message on its way into the store, as one value. Producers, consumers that send back, delay levels, transactions
and timers all pass it on."""

from __future__ import annotations

import msgspec

from rmqproto.message.properties import joined
from rmqproto.message.record import StoredMessage


class NewMessage(msgspec.Struct):
    """Hosts are record host fields: 4 or 16 address bytes and the port as i32. The store sets the host bits of
    ``sys_flag``. ``properties`` keep their order. ``prepared_offset`` is the log offset of the half message that a
    commit or rollback is about; 0 elsewhere. Mutable: the put's rewrites change it on its way."""

    topic: str
    queue_id: int
    flag: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: bytes
    store_host: bytes
    reconsume_times: int
    body: bytes | memoryview
    properties: dict[str, str]
    prepared_offset: int = 0

    def properties_bytes(self) -> bytes:
        """The properties as a record holds them."""
        return joined(self.properties)


def copy_for(message: StoredMessage, topic: str, queue_id: int, properties: dict[str, str]) -> NewMessage:
    """A copy of a stored message for a queue, with these properties. The caller changes what else differs."""
    return NewMessage(
        topic=topic,
        queue_id=queue_id,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp_ms=message.born_timestamp_ms,
        born_host=message.born_host,
        store_host=message.store_host,
        reconsume_times=message.reconsume_times,
        body=message.body,
        properties=properties,
    )
