"""The store's options: file sizes, flushing, limits, retention. Defaults are those of Apache RocketMQ 5.5.0, so
Apache's broker can open a directory written with them. The name in a comment is Apache's key in ``broker.conf``."""

from __future__ import annotations

import enum
from dataclasses import dataclass

UNIT_SIZE_BYTES = 20
"""One entry of a consume queue."""

_LEVEL_SECONDS = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
DEFAULT_DELAY_LEVELS_MS = tuple(seconds * 1000 for seconds in _LEVEL_SECONDS)
"""``messageDelayLevel`` = 1s 5s 10s 30s 1m 2m … 9m 10m 20m 30m 1h 2h; level 1 is the first."""


class FlushMode(enum.Enum):
    """When a message may be seen: after the write to the page cache, or after the fdatasync that covers it."""

    ASYNC = "ASYNC_FLUSH"
    SYNC = "SYNC_FLUSH"


DISK_PERCENT_BOUNDS = {
    "disk_used_percent_max": (10, 95),
    "disk_used_percent_forcible": (30, 85),
    "disk_used_percent_full": (35, 90),
}
"""How Apache treats disk limits outside these bounds (5.5.0, ``MessageStoreConfig`` and ``DefaultMessageStore``): it
takes the nearest bound."""


def bounded_disk_percent(field: str, percent: int) -> int:
    """A disk limit as brokers apply it, by its field in ``StoreOptions``."""
    low, high = DISK_PERCENT_BOUNDS[field]
    return min(max(percent, low), high)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """File sizes must stay what they were when the directory was made; everything else may change from run to run."""

    flush_mode: FlushMode = FlushMode.ASYNC  # flushDiskType
    commit_log_file_size_bytes: int = 1 << 30  # mappedFileSizeCommitLog
    consume_queue_file_size_bytes: int = 300_000 * UNIT_SIZE_BYTES  # mappedFileSizeConsumeQueue
    index_enabled: bool = True  # messageIndexEnable
    index_slot_count: int = 5_000_000  # maxHashSlotNum
    index_unit_count: int = 20_000_000  # maxIndexNum

    light_queues_enabled: bool = False  # enableLmq and enableMultiDispatch
    light_queue_count_max: int | None = None  # maxLmqConsumeQueueNum, with enableLmqQuota

    waits_for_copies: bool = False  # enableControllerMode: readers see only what all brokers in sync have

    message_size_max_bytes: int = 4 << 20  # maxMessageSize: the body, as stored
    delay_levels_ms: tuple[int, ...] = DEFAULT_DELAY_LEVELS_MS  # messageDelayLevel

    flush_interval_ms: int = 500  # flushIntervalCommitLog: async mode loses no more than this in a power cut
    checkpoint_interval_ms: int = 60_000  # flushConsumeQueueThoroughInterval

    transfer_count_in_memory_max: int = 32  # maxTransferCountOnMessageInMemory
    transfer_bytes_in_memory_max: int = 256 << 10  # maxTransferBytesOnMessageInMemory
    transfer_count_on_disk_max: int = 8  # maxTransferCountOnMessageInDisk
    transfer_bytes_on_disk_max: int = 64 << 10  # maxTransferBytesOnMessageInDisk
    memory_percent_for_messages: int = 40  # accessMessageInMemoryMaxRatio
    filter_scan_bytes_max: int = 16_000  # maxFilterMessageSize: consume queue bytes that one pull may look at

    check_crc_on_recover: bool = True  # checkCRCOnRecover

    delete_hours: tuple[int, ...] = (4,)  # deleteWhen: local hours in which expired files go
    file_reserved_hours: int = 72  # fileReservedTime
    delete_file_batch_max: int = 10  # deleteFileBatchMax
    clean_forcibly_enabled: bool = True  # cleanFileForciblyEnable
    disk_used_percent_max: int = 75  # diskMaxUsedSpaceRatio: above, expired files go at any hour
    disk_used_percent_forcible: int = 85  # diskSpaceCleanForciblyRatio: above, files go whatever their age
    disk_used_percent_full: int = 90  # diskSpaceWarningLevelRatio: above, nothing is written

    disk_free_min_bytes: int = 256 << 20
    """Writes stop if less is left, whatever the percentage. This limit is ours; Apache has only ratios."""

    open_files_max: int = 256
    """Consume queue and commit log files kept open; others are opened when needed."""

    def __post_init__(self) -> None:
        if self.consume_queue_file_size_bytes % UNIT_SIZE_BYTES:
            whole = -(-self.consume_queue_file_size_bytes // UNIT_SIZE_BYTES) * UNIT_SIZE_BYTES
            object.__setattr__(self, "consume_queue_file_size_bytes", whole)


@dataclass(frozen=True, slots=True)
class TimerPaths:
    wheel: str
    log: str
    check: str

    @classmethod
    def below(cls, root: str) -> TimerPaths:
        """Paths in a store directory, as Apache's broker has them."""
        return cls(f"{root}/timerwheel", f"{root}/timerlog", f"{root}/config/timercheck")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerOptions:
    """The comment of a field is Apache's key."""

    precision_ms: int = 1000  # timerPrecisionMs
    log_file_size_bytes: int = 100 << 20  # mappedFileSizeTimerLog
    roll_window_slots: int = 2 * 24 * 3600  # timerRollWindowSlot
