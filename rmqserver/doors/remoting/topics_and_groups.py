"""The requests about topics and groups: which operation each calls, and how its value is answered
(``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqproto.bodies.groups import GroupConfigList, SubscriptionGroupConfig
from rmqproto.bodies.routes import TopicConfigList
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.tables import (
    AllGroupsAnswer,
    AllGroupsHeader,
    AllTopicsAnswer,
    AllTopicsHeader,
    TopicConfigHeader,
)
from rmqproto.wire.fastjson import dumps, loads_untrusted
from rmqserver.doors.remoting.handlers import done, value_of, what_it_reads
from rmqserver.operation import UNSET_REMARK, Refused
from rmqserver.remoting.answer import Request, send_answer, success

if TYPE_CHECKING:
    from rmqserver.broker.admin.group_admin import GroupAdmin
    from rmqserver.broker.admin.topic_admin import TopicAdmin
    from rmqserver.broker.reads import Reads
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler


class TopicRequests:
    def __init__(self, topics: TopicAdmin, reads: Reads):
        self._topics = topics
        self._reads = reads

    def handlers(self) -> dict[int, Handler]:
        topics = self._topics
        return {
            R.UPDATE_AND_CREATE_TOPIC: self._upsert,
            R.UPDATE_AND_CREATE_TOPIC_LIST: self._upsert_list,
            R.UPDATE_AND_CREATE_STATIC_TOPIC: self._refuse_static,
            R.GET_TOPIC_CONFIG: value_of(lambda request, _: topics.get(request.header.topic)),
            R.GET_ALL_TOPIC_CONFIG: self._get_all,
            R.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: value_of(lambda request, _: topics.system_topics()),
            R.DELETE_TOPIC_IN_BROKER: done(lambda request, _: topics.delete(request.header.topic)),
            R.GET_TOPIC_STATS_INFO: what_it_reads(
                self._reads, lambda request, _: topics.topic_stats(request.header.topic)
            ),
        }

    def _upsert(self, request: Request[TopicConfigHeader], connection: Connection) -> None:
        self._topics.upsert(request.header, lambda: _done(request, connection))

    def _upsert_list(self, request: Request[Any], connection: Connection) -> None:
        wanted = loads_untrusted(request.body, TopicConfigList).topic_config_list
        self._topics.upsert_list(wanted, lambda: _done(request, connection))

    def _refuse_static(self, request: Request[TopicConfigHeader], connection: Connection) -> None:
        raise Refused(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            "static topics are not served by this broker: create a plain topic (updateTopic), and give it queues on "
            "more brokers when it needs them",
        )

    def _get_all(self, request: Request[AllTopicsHeader], connection: Connection) -> bytes:
        body = self._topics.get_all(request.header)
        return success(request, AllTopicsAnswer(total_topic_num=self._topics.count), dumps(body))


def _done(request: Request[Any], connection: Connection) -> None:
    send_answer(request, connection, success(request, remark=UNSET_REMARK))


class GroupRequests:
    def __init__(self, groups: GroupAdmin):
        self._groups = groups

    def handlers(self) -> dict[int, Handler]:
        groups = self._groups
        return {
            R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: done(self._put),
            R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: done(
                lambda request, _: groups.put_list(loads_untrusted(request.body, GroupConfigList).group_config_list)
            ),
            R.GET_SUBSCRIPTIONGROUP_CONFIG: value_of(lambda request, _: groups.get(request.header.group)),
            R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self._get_all,
            R.DELETE_SUBSCRIPTIONGROUP: done(
                lambda request, _: groups.delete(
                    request.header.group_name, clean_offset=bool(request.header.clean_offset)
                )
            ),
            R.UPDATE_AND_GET_GROUP_FORBIDDEN: value_of(
                lambda request, _: groups.forbidden(
                    request.header.group, request.header.topic, request.header.readable
                ),
                remark="",
            ),
        }

    def _put(self, request: Request[Any], connection: Connection) -> None:
        if request.body:  # Apache's broker makes nothing without one, either; some tools go on with 352, which does
            self._groups.put(loads_untrusted(request.body, SubscriptionGroupConfig))

    def _get_all(self, request: Request[AllGroupsHeader], connection: Connection) -> bytes:
        body = self._groups.get_all(request.header)
        return success(request, AllGroupsAnswer(total_group_num=self._groups.count), dumps(body))
