"""Statistics of brokers over the last minute and day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqproto.bodies.statistics import BrokerStatsData
from rmqproto.errors import RefusedError

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient

TOPIC_PUT, GROUP_GET = "TOPIC_PUT_NUMS", "GROUP_GET_NUMS"
"""Names of brokers' statistics; their keys are ``topic`` and ``topic@group``."""


def read_stats(admin: AdminClient, addr: str, stats_name: str, stats_key: str) -> BrokerStatsData | None:
    """The statistics; None if nothing was counted yet."""
    try:
        return admin.broker_stats(addr, stats_name, stats_key)
    except RefusedError:
        return None


def day_count(stats: BrokerStatsData) -> int:
    """The count of the last day. A broker running for less than a day has it by the hour, or the minute."""
    return stats.stats_day.sum or stats.stats_hour.sum or stats.stats_minute.sum
