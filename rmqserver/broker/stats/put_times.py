"""How long sends took: the histogram, the percentiles and the maximum that 28 GET_BROKER_RUNTIME_INFO shows.

All messages of one round of the loop share one time, so the clock is read once a round and not once a message. The last
full minute is shown, as in Apache's broker (``StoreStatsService``, 5.5.0).
"""

from __future__ import annotations

from bisect import bisect_right

_BOUNDS_MS = (10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
_LABELS = (
    "<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s", "1~2s", "2~3s", "3~4s", "4~5s",
    "5~10s", "10s~",
)  # fmt: skip

_BUCKETS = 64
"""Bucket n holds times below 2**n us. So many buckets hold more than a clock can tell."""


class PutTimes:
    """Two minutes of times: the current one, and the last full one, which is shown."""

    def __init__(self) -> None:
        self.max_ms = 0
        self._filling = [0] * _BUCKETS
        self._filling_labels = [0] * len(_LABELS)
        self._shown = [0] * _BUCKETS
        self._shown_labels = [0] * len(_LABELS)

    def note(self, elapsed_us: int, message_count: int) -> None:
        """``message_count`` messages were answered ``elapsed_us`` after the first of them came."""
        self._filling[elapsed_us.bit_length()] += message_count
        if elapsed_us < 1000:  # nearly always, and the next answer waits for this
            self._filling_labels[0] += message_count
            return
        elapsed_ms = elapsed_us // 1000
        self.max_ms = max(self.max_ms, elapsed_ms)
        self._filling_labels[1 + bisect_right(_BOUNDS_MS, elapsed_ms)] += message_count

    def turn_minute(self) -> None:
        """Ends a minute, which is shown from now on."""
        self._shown, self._filling = self._filling, [0] * _BUCKETS
        self._shown_labels, self._filling_labels = self._filling_labels, [0] * len(_LABELS)

    def percentile_ms(self, percent: float) -> float:
        """The time that ``percent`` of the last minute's messages did not exceed. 0.0 if there were no messages."""
        rank = sum(self._shown) * percent / 100
        passed = 0
        for bucket, count in enumerate(self._shown):
            if count and passed + count >= rank:
                low_us, high_us = (1 << bucket) >> 1, 1 << bucket
                return (low_us + (high_us - low_us) * (rank - passed) / count) / 1000
            passed += count
        return 0.0

    def distribution(self) -> str:
        """``[<=0ms]:3 [0~10ms]:1 …``, with a blank at the end, as Apache writes it."""
        pairs = zip(_LABELS, self._shown_labels, strict=True)
        return "".join(f"[{label}]:{count} " for label, count in pairs)
