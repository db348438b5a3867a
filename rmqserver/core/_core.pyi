from rmqproto.filters.message_filter import AcceptsRawProperties, AcceptsValues
from rmqserver.core.simple import CopiedRun, IndexItem

def plain_records(
    data: bytes | memoryview,
    base: int,
    fates: bytes,
    queued: int,
    indexed: int,
    marks: tuple[bytes, ...],
    odd_topic: bytes,
) -> tuple[int, int, int, list[CopiedRun], list[IndexItem]]: ...
def index_units(
    items: list[IndexItem],
    slots: memoryview,
    slot_count: int,
    dirty: bytearray,
    number: int,
    room: int,
    begin_ms: int,
) -> tuple[bytes, int, int] | None: ...
def take_wanted(
    data: bytes,
    units: bytes,
    base: int,
    accepts: AcceptsRawProperties,
    by_values: AcceptsValues | None,
    records: list[bytes],
    count_max: int,
) -> int: ...
def cut_signed(
    keys: tuple[bytes, ...],
    order: bytes,
    known: tuple[bytes | None, ...],
    access_key_at: int,
    header: bytes,
    body: bytes,
) -> tuple[bytes, bytes, bool] | None: ...
