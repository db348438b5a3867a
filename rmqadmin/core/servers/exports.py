"""What exports read of brokers (what users made, statistics of a day), and the files that they write."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rmqadmin.core.admin_client import AdminClient
from rmqadmin.core.files import write_file
from rmqadmin.core.mqadmin_text import fastjson_pretty
from rmqproto.bodies.groups import SubscriptionGroups
from rmqproto.bodies.routes import TopicConfigs
from rmqproto.bodies.statistics import BrokerStatsData
from rmqproto.codes import PERM_MAX
from rmqproto.errors import RefusedError
from rmqproto.names import DLQ_PREFIX, RETRY_PREFIX, is_system_group, is_system_topic


def user_topics(admin: AdminClient, addr: str, *, with_special: bool = False) -> TopicConfigs:
    """``with_special``: retry topics and dead-letter queues too."""
    found = admin.all_topics(addr)
    of_broker = set(admin.system_topics_of_broker(addr))
    found.topic_config_table = {
        name: config
        for name, config in found.topic_config_table.items()
        if name not in of_broker
        and not is_system_topic(name)
        and (with_special or not name.startswith((RETRY_PREFIX, DLQ_PREFIX)))
        and 0 <= config.perm <= PERM_MAX
    }
    return found


def user_groups(admin: AdminClient, addr: str) -> SubscriptionGroups:
    found = admin.all_groups(addr)
    found.subscription_group_table = {
        name: config for name, config in found.subscription_group_table.items() if not is_system_group(name)
    }
    return found


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


MQADMIN_FOLDER = "/tmp/rocketmq/export"
"""Where mqadmin writes by default."""


def export(
    folder: str | None, as_mqadmin: bool, name: str, content: Callable[[], Any], notice: Callable[[str], None]
) -> str | None:
    """Writes ``content()`` as JSON, in fastjson's format, to ``folder/name``. Without ``folder``, writes to mqadmin's
    folder if ``as_mqadmin``, else nothing. The path; None if nothing was written. StorageError if it cannot be
    written."""
    if folder is None and not as_mqadmin:
        return None
    path = Path((folder or MQADMIN_FOLDER).strip()) / name
    write_file(path, fastjson_pretty(content()).encode())
    if not as_mqadmin:
        notice(f"written to {path}")
    return str(path)
