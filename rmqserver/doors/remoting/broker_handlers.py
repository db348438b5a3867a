"""The handlers of a broker: every request code that it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqserver.broker.admin.auth_admin import AuthAdmin
from rmqserver.broker.admin.broker_admin import BrokerAdmin
from rmqserver.broker.admin.consume_stats import ConsumeStatsAdmin
from rmqserver.broker.admin.master_admin import MasterAdmin
from rmqserver.broker.admin.message_query import MessageQuery
from rmqserver.broker.admin.offset_admin import OffsetAdmin
from rmqserver.broker.admin.runtime_info import RuntimeInfo
from rmqserver.broker.admin.timer_admin import TimerAdmin
from rmqserver.broker.clients.client_admin import ClientAdmin
from rmqserver.broker.clients.membership import Membership
from rmqserver.broker.consuming.queue_ends import QueueEnds
from rmqserver.broker.consuming.reset_offset import ResetOffset
from rmqserver.doors.remoting.broker_and_users import BrokerRequests, MasterRequests, UserRequests
from rmqserver.doors.remoting.offsets_and_timers import (
    ConsumerOffsetRequests,
    OffsetRequests,
    QueueEndRequests,
    TimerRequests,
)
from rmqserver.doors.remoting.online_clients import ClientRequests
from rmqserver.doors.remoting.pop_requests import PopRequests
from rmqserver.doors.remoting.popped_messages import AckRequests, AssignmentRequests, LiteRequests
from rmqserver.doors.remoting.pulls import PullRequests
from rmqserver.doors.remoting.queries import QueryRequests
from rmqserver.doors.remoting.returned_messages import ReturnRequests
from rmqserver.doors.remoting.sends import SendHandlers
from rmqserver.doors.remoting.topics_and_groups import GroupRequests, TopicRequests
from rmqserver.doors.remoting.transaction_requests import TransactionRequests

if TYPE_CHECKING:
    from rmqserver.broker.broker import Broker
    from rmqserver.remoting.service import Handler


def broker_handlers(broker: Broker) -> dict[int, Handler]:
    parts = broker.parts
    runtime = RuntimeInfo(parts, broker.delays, broker.timers.counts, broker.following_problem)
    services = (
        SendHandlers(broker.sends, parts),
        PullRequests(broker.pulls),
        ReturnRequests(broker.send_backs, broker.recalls, broker.replies, broker.config, broker.reads),
        TransactionRequests(broker.transactions.ends, broker.store, broker.reads, broker.pending),
        TimerRequests(TimerAdmin(parts, broker.timers.counts)),
        ClientRequests(Membership(parts), broker.locks, ClientAdmin(parts), broker.reads),
        ConsumerOffsetRequests(broker.committed_offsets, broker.reads),
        QueueEndRequests(QueueEnds(parts), ResetOffset(parts), broker.reads),
        PopRequests(broker.pop, broker.reads),
        AckRequests(broker.pop.acks),
        AssignmentRequests(broker.pop.assigning),
        LiteRequests(broker.pop.lite.subscriptions, broker.pop.lite.infos),
        TopicRequests(broker.topic_admin, broker.reads),
        GroupRequests(broker.group_admin),
        OffsetRequests(OffsetAdmin(parts, broker.delays)),
        QueryRequests(MessageQuery(parts), ConsumeStatsAdmin(parts), broker.store, broker.reads),
        MasterRequests(MasterAdmin(parts)),
        BrokerRequests(BrokerAdmin(parts, runtime, broker.settings_changed), broker.reads),
        UserRequests(AuthAdmin(broker.auth, broker.auth_settings)),
    )
    table: dict[int, Handler] = {}
    for service in services:
        table.update(service.handlers())
    return table
