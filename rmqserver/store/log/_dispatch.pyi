from collections.abc import Callable

from rmqserver.store.index.file import IndexItem
from rmqserver.store.queues.feed import Run

def plain_records(
    data: bytes,
    base: int,
    fates: bytes,
    queued: int,
    indexed: int,
    marks: tuple[bytes, ...],
    odd_topic: bytes,
    crc32: Callable[[memoryview], int],
) -> tuple[int, int, int, list[Run], list[IndexItem]]: ...
