from rmqserver.store.queues.round import IndexItem

def index_units(
    items: list[IndexItem],
    slots: memoryview,
    slot_count: int,
    dirty: bytearray,
    number: int,
    room: int,
    begin_ms: int,
) -> tuple[bytes, int] | None: ...
