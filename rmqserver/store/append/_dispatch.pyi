from collections.abc import Callable

from rmqserver.store.queues.feed import Run
from rmqserver.store.queues.round import IndexItem

HAS_CRC32: int

def plain_records(
    data: bytes | memoryview,
    base: int,
    fates: bytes,
    queued: int,
    indexed: int,
    marks: tuple[bytes, ...],
    odd_topic: bytes,
    crc32: Callable[[memoryview], int] | None,
) -> tuple[int, int, int, list[Run], list[IndexItem]]: ...
