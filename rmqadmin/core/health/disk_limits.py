"""The limits at which a broker acts on a full disk (``MessageStoreConfig``, 5.5.0), and how full it is."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rmqadmin.core.health.finding import Grade

_KEYS = {
    "disk_used_percent_max": ("diskMaxUsedSpaceRatio", 75),
    "disk_used_percent_forcible": ("diskSpaceCleanForciblyRatio", 85),
    "disk_used_percent_full": ("diskSpaceWarningLevelRatio", 90),
}
"""Apache's keys by their fields in ``StoreOptions``, and its defaults for brokers that do not return them."""

LOG_RATIO, QUEUE_RATIO = "commitLogDiskRatio", "consumeQueueDiskRatio"


class DiskLimits(msgspec.Struct, frozen=True):
    """Percent of the disk. Above ``early``, expired files are deleted at any hour; above ``forcible``, files are
    deleted whatever their age; above ``full``, nothing is written."""

    early: int
    forcible: int
    full: int

    @property
    def error(self) -> int:
        return min(self.forcible, self.full)

    @property
    def warning(self) -> int:
        return min(self.early, self.error)


def disk_grade(percent: float, limits: DiskLimits) -> Grade | None:
    """How bad it is that a disk is so full; None up to the first limit."""
    if percent > limits.error:
        return Grade.ERROR
    return Grade.WARNING if percent > limits.warning else None


def disk_limits(config: Mapping[str, str]) -> DiskLimits:
    """The limits that a broker takes from its settings, within Apache's bounds."""
    from rmqserver.store.options import bounded_disk_percent

    def percent(field: str) -> int:
        key, default = _KEYS[field]
        text = config.get(key, "").strip()
        return bounded_disk_percent(field, int(text) if text.isdecimal() else default)

    return DiskLimits(*(percent(field) for field in _KEYS))


def disk_percents(info: Mapping[str, str]) -> dict[str, float]:
    """How full a broker's disks are, by their contents: ``commit log``, ``consume queues``. The disks of a commit log
    on several disks are listed by path."""
    found: dict[str, float] = {}
    paths = [name for name in info if name.startswith(f"{LOG_RATIO}_")]
    names = (
        {name: f"commit log {name.partition('_')[2]}" for name in paths}
        if len(paths) > 1
        else {LOG_RATIO: "commit log"}
    )
    for name, what in {**names, QUEUE_RATIO: "consume queues"}.items():
        try:
            ratio = float(info.get(name, ""))
        except ValueError:
            continue
        if 0 <= ratio <= 1:  # brokers return -1 for a path that does not exist
            found[what] = round(ratio * 100, 2)
    return found
