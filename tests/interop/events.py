"""Messages to and from the Java witness (``java/Witness.java``), as types of JSON lines."""

import base64
from typing import Any

import msgspec

# Properties that the Java consumer adds to what the broker served.
ADDED_BY_CLIENT = {"MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME"}
# Properties for client and broker themselves; the others belong to the user.
SYSTEM_PROPERTIES = ADDED_BY_CLIENT | {
    "KEYS", "TAGS", "WAIT", "UNIQ_KEY", "CLUSTER", "DELAY", "REAL_TOPIC", "REAL_QID", "RETRY_TOPIC",
    "ORIGIN_MESSAGE_ID", "RECONSUME_TIME", "MAX_RECONSUME_TIMES", "TRACE_ON", "MSG_REGION", "INNER_NUM",
}  # fmt: skip


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A message for the witness to send. Without ``queue_id`` and ``sharding_key`` the client chooses the queue."""

    body: bytes
    tags: str | None = None
    keys: str | None = None
    properties: dict[str, str] = {}
    flag: int = 0
    delay_level: int = 0
    queue_id: int | None = None
    sharding_key: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "body": base64.b64encode(self.body).decode(), "tags": self.tags, "keys": self.keys,
            "properties": self.properties, "flag": self.flag, "delayLevel": self.delay_level,
            "queueId": self.queue_id, "shardingKey": self.sharding_key,
        }  # fmt: skip


class _Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="event"):
    id: int


class Done(_Event, frozen=True, tag="done"):
    pass


class Failed(_Event, frozen=True, tag="failed"):
    """The exception of a call; ``code`` is the broker's response code, -1 if there is none."""

    code: int
    error: str


class Sent(_Event, frozen=True, tag="sent"):
    index: int
    status: str
    msg_id: str
    offset_msg_id: str | None
    queue_id: int
    broker_name: str
    queue_offset: int


class Refused(_Event, frozen=True, tag="refused"):
    index: int
    code: int
    error: str


class Started(_Event, frozen=True, tag="started"):
    client_id: str


class Message(_Event, frozen=True, tag="message"):
    """A message as the Java client shows it. ``failed`` and ``thread`` tell what the listener answered and where it
    ran."""

    topic: str
    msg_id: str
    offset_msg_id: str
    tags: str | None
    keys: str | None
    queue_id: int
    queue_offset: int
    log_offset: int
    store_size: int
    body: bytes
    body_crc: int
    reconsume_times: int
    properties: dict[str, str]
    flag: int
    sys_flag: int
    born_timestamp: int
    store_timestamp: int
    born_host: str
    store_host: str
    prepared_transaction_offset: int
    failed: bool = False
    thread: str = ""

    @property
    def stored_properties(self) -> dict[str, str]:
        """The properties without those that the consumer added."""
        return {name: value for name, value in self.properties.items() if name not in ADDED_BY_CLIENT}

    @property
    def user_properties(self) -> dict[str, str]:
        return {name: value for name, value in self.properties.items() if name not in SYSTEM_PROPERTIES}

    def as_stored(self) -> dict[str, Any]:
        """Every field that belongs to the stored message, for comparing two reads of it."""
        fields = msgspec.structs.asdict(self)
        for of_the_read in ("id", "failed", "thread"):
            del fields[of_the_read]
        return {**fields, "properties": self.stored_properties}


class Pulled(_Event, frozen=True, tag="pulled"):
    status: str
    next_offset: int
    min_offset: int
    max_offset: int


class Queue(_Event, frozen=True, tag="queue"):
    queue_id: int
    min_offset: int
    max_offset: int
    earliest_store_timestamp: int


class Found(_Event, frozen=True, tag="found"):
    queue_offset: int


class Progress(_Event, frozen=True, tag="progress"):
    queue_id: int
    broker_offset: int
    committed_offset: int


class Member(_Event, frozen=True, tag="member"):
    client_id: str


class Assigned(_Event, frozen=True, tag="assigned"):
    queue_id: int


class Replied(_Event, frozen=True, tag="replied"):
    body: bytes
    properties: dict[str, str]


Event = (
    Done | Failed | Sent | Refused | Started | Message | Pulled | Queue | Found | Progress | Member | Assigned | Replied
)
decoder = msgspec.json.Decoder(Event)
