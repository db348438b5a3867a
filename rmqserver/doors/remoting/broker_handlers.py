"""The handlers of a broker: every request code that it serves, in its role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqserver.broker.controlled.set_master import SetMaster
from rmqserver.doors.remoting.broker_and_users import BrokerRequests, MasterRequests, UserRequests
from rmqserver.doors.remoting.member_requests import MemberRequests
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
from rmqserver.doors.remoting.slave_refusals import SlaveRefusals
from rmqserver.doors.remoting.topics_and_groups import GroupRequests, TopicRequests
from rmqserver.doors.remoting.transaction_requests import TransactionRequests

if TYPE_CHECKING:
    from rmqserver.broker.broker import Broker
    from rmqserver.doors.remoting.sends import SendHandlers
    from rmqserver.remoting.service import Handler


def broker_handlers(broker: Broker, sends: SendHandlers) -> dict[int, Handler]:
    reads, subscriptions = broker.reads, broker.pop.lite.subscriptions
    services = (
        sends,
        PullRequests(broker.pulls, broker.pull_plans),
        ReturnRequests(broker.send_backs, broker.recalls, broker.replies, broker.config, reads),
        TransactionRequests(broker.transaction_ends, broker.store, reads, broker.pending),
        TimerRequests(broker.timer_admin),
        ClientRequests(broker.membership, broker.filters, broker.locks, broker.client_admin, reads),
        ConsumerOffsetRequests(broker.committed_offsets, reads),
        QueueEndRequests(broker.queue_ends, broker.reset_offset, reads),
        PopRequests(broker.pops, broker.lite_pops, broker.looks, reads),
        AckRequests(broker.acks),
        AssignmentRequests(broker.assigning),
        LiteRequests(subscriptions, broker.lite_infos),
        TopicRequests(broker.topic_admin, reads),
        GroupRequests(broker.group_admin),
        OffsetRequests(broker.offset_admin),
        QueryRequests(broker.message_query, broker.consume_stats, broker.store, reads),
        MasterRequests(broker.master_admin, broker.table_watch),
        BrokerRequests(broker.broker_admin, reads),
        UserRequests(broker.auth_admin),
    )
    table: dict[int, Handler] = {}
    for service in services:
        table.update(service.handlers())
    if broker.slave is not None:
        table |= SlaveRefusals(broker.config, broker.slave).handlers(table)
    if broker.set_state is not None and isinstance(broker.replicas, SetMaster):
        table |= MemberRequests(broker.set_state, broker.replicas).handlers(table)
    return table
