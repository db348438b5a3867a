"""The requests of tools about topics and groups, about the broker itself (its settings, state, counters, cleaning),
about a master and its slaves, and about users and policies (``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqproto.bodies.acl import AclInfo, UserAccount
from rmqproto.bodies.groups import GroupConfigList, SubscriptionGroupConfig
from rmqproto.bodies.replication import RocksDbProgress
from rmqproto.bodies.routes import TopicConfigList
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.controller import HaInfoHeader
from rmqproto.headers.tables import (
    AllGroupsAnswer,
    AllTopicsAnswer,
    BrokerConfigAnswer,
    UserHeader,
)
from rmqproto.wire.fastjson import dumps, loads_untrusted
from rmqserver.broker.admin.auth_admin import Asker
from rmqserver.doors.remoting.handlers import done, value_of, what_it_reads
from rmqserver.operation import UNSET_REMARK, Refused
from rmqserver.remoting.answer import Request, send_answer, success

if TYPE_CHECKING:
    from rmqserver.broker.admin.auth_admin import AuthAdmin
    from rmqserver.broker.admin.broker_admin import MasterAdmin
    from rmqserver.broker.assembly import BrokerAssembly
    from rmqserver.broker.replicas.table_watch import TableWatch
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler


_CHECK_UNDER_WAY = 2


def topic_handlers(parts: BrokerAssembly) -> dict[int, Handler]:
    topics = parts.topic_admin

    def upsert(request: Request[Any], connection: Connection) -> None:
        topics.upsert(request.header, lambda: _done(request, connection))

    def upsert_list(request: Request[Any], connection: Connection) -> None:
        wanted = loads_untrusted(request.body, TopicConfigList).topic_config_list
        topics.upsert_list(wanted, lambda: _done(request, connection))

    def get_all(request: Request[Any], connection: Connection) -> bytes:
        body = topics.get_all(request.header)
        return success(request, AllTopicsAnswer(total_topic_num=topics.count), dumps(body))

    return {
        R.UPDATE_AND_CREATE_TOPIC: upsert,
        R.UPDATE_AND_CREATE_TOPIC_LIST: upsert_list,
        R.UPDATE_AND_CREATE_STATIC_TOPIC: _refuse_static,
        R.GET_TOPIC_CONFIG: value_of(lambda request, _: topics.get(request.header.topic)),
        R.GET_ALL_TOPIC_CONFIG: get_all,
        R.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: value_of(lambda request, _: topics.system_topics()),
        R.DELETE_TOPIC_IN_BROKER: done(lambda request, _: topics.delete(request.header.topic)),
        R.GET_TOPIC_STATS_INFO: what_it_reads(parts.reads, lambda request, _: topics.topic_stats(request.header.topic)),
    }


def _done(request: Request[Any], connection: Connection) -> None:
    send_answer(request, connection, success(request, remark=UNSET_REMARK))


def _refuse_static(request: Request[Any], connection: Connection) -> None:
    raise Refused(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        "static topics are not served by this broker: create a plain topic (updateTopic), and give it queues on "
        "more brokers when it needs them",
    )


def group_handlers(parts: BrokerAssembly) -> dict[int, Handler]:
    groups = parts.group_admin

    def put(request: Request[Any], connection: Connection) -> None:
        if request.body:  # Apache's broker makes nothing without one, either; some tools go on with 352, which does
            groups.put(loads_untrusted(request.body, SubscriptionGroupConfig))

    def get_all(request: Request[Any], connection: Connection) -> bytes:
        body = groups.get_all(request.header)
        return success(request, AllGroupsAnswer(total_group_num=groups.count), dumps(body))

    return {
        R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: done(put),
        R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: done(
            lambda request, _: groups.put_list(loads_untrusted(request.body, GroupConfigList).group_config_list)
        ),
        R.GET_SUBSCRIPTIONGROUP_CONFIG: value_of(lambda request, _: groups.get(request.header.group)),
        R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: get_all,
        R.DELETE_SUBSCRIPTIONGROUP: done(
            lambda request, _: groups.delete(request.header.group_name, clean_offset=bool(request.header.clean_offset))
        ),
        R.UPDATE_AND_GET_GROUP_FORBIDDEN: value_of(
            lambda request, _: groups.forbidden(request.header.group, request.header.topic, request.header.readable),
            remark="",
        ),
    }


def config_and_state_handlers(parts: BrokerAssembly) -> dict[int, Handler]:
    """Settings, state, counters, and cleaning."""
    admin = parts.broker_admin

    def update_config(request: Request[Any], connection: Connection) -> None:
        if request.body:
            admin.update_config(request.body, connection)

    def get_config(request: Request[Any], connection: Connection) -> bytes:
        version = dumps(admin.data_version).decode()
        return success(request, BrokerConfigAnswer(version=version), admin.config_text().encode())

    return {
        R.UPDATE_BROKER_CONFIG: done(update_config),
        R.GET_BROKER_CONFIG: get_config,
        R.GET_BROKER_RUNTIME_INFO: what_it_reads(parts.reads, lambda request, _: admin.state),
        R.VIEW_BROKER_STATS_DATA: value_of(
            lambda request, _: admin.stats(request.header.stats_name, request.header.stats_key)
        ),
        R.CLEAN_EXPIRED_CONSUMEQUEUE: done(lambda request, _: admin.clean_expired(at_any_hour=False)),
        R.DELETE_EXPIRED_COMMITLOG: done(lambda request, _: admin.clean_expired(at_any_hour=True)),
        R.CLEAN_UNUSED_TOPIC: done(lambda request, _: admin.clean_unused_topics()),
    }


def master_handlers(admin: MasterAdmin, watch: TableWatch | None) -> dict[int, Handler]:
    def ha_info(request: Request[HaInfoHeader], connection: Connection) -> bytes | None:
        """A slave that watches is answered when there is something to copy."""

        def tell(found: HaInfoHeader) -> None:
            send_answer(request, connection, success(request, found))

        slave_id, stamp = request.header.slave_broker_id, request.header.tables_stamp or 0
        if slave_id is not None and watch is not None and watch.watch(slave_id, stamp, connection, tell):
            return None
        return success(request, admin.ha_info(request.header, connection))

    def set_read_mode(request: Request[Any], connection: Connection) -> bytes:
        mode = admin.read_mode(request.header.mode)
        return success(request, remark=f"set commitlog readahead mode success, mode: {mode}")

    return {
        R.GET_BROKER_HA_STATUS: value_of(lambda request, _: admin.status()),
        R.EXCHANGE_BROKER_HA_INFO: ha_info,
        R.RESET_MASTER_FLUSH_OFFSET: done(lambda request, _: None),  # a master has nothing to reset
        R.GET_BROKER_EPOCH_CACHE: _epochs,
        R.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: done(lambda request, _: admin.set_cold_limits(request.body)),
        R.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: done(  # the body is a group
            lambda request, _: admin.remove_cold_limit(request.body.decode(errors="replace"))
        ),
        R.GET_COLD_DATA_FLOW_CTR_INFO: value_of(lambda request, _: admin.cold_limits()),
        R.SET_COMMITLOG_READ_MODE: set_read_mode,
        # Answered at once, as by Apache's broker, which later writes the outcome of the check to its log.
        R.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: value_of(
            lambda request, _: RocksDbProgress(check_status=_CHECK_UNDER_WAY), UNSET_REMARK
        ),
        R.EXPORT_ROCKSDB_CONFIG_TO_JSON: done(
            lambda request, _: admin.check_export(request.header.config_type), "export done."
        ),
    }


def _epochs(request: Request[Any], connection: Connection) -> bytes:
    raise Refused(ResponseCode.SYSTEM_ERROR, "this request only for controllerMode ")


def user_handlers(admin: AuthAdmin) -> dict[int, Handler]:
    put_acl = done(lambda request, _: admin.put_acl(request.header.subject, _acl(request)), UNSET_REMARK)
    return {
        R.AUTH_CREATE_USER: done(
            lambda request, _: admin.create_user(_account(request), _asker(request)), UNSET_REMARK
        ),
        R.AUTH_UPDATE_USER: done(
            lambda request, _: admin.update_user(_account(request), _asker(request)), UNSET_REMARK
        ),
        R.AUTH_DELETE_USER: done(
            lambda request, _: admin.delete_user(request.header.username, _asker(request)), UNSET_REMARK
        ),
        R.AUTH_GET_USER: value_of(lambda request, _: admin.user(request.header.username), UNSET_REMARK),
        R.AUTH_LIST_USER: value_of(lambda request, _: admin.users(request.header.filter) or None, UNSET_REMARK),
        R.AUTH_CREATE_ACL: put_acl,
        R.AUTH_UPDATE_ACL: put_acl,
        R.AUTH_DELETE_ACL: done(
            lambda request, _: admin.delete_acl(
                request.header.subject, request.header.policy_type, request.header.resource
            ),
            UNSET_REMARK,
        ),
        R.AUTH_GET_ACL: value_of(lambda request, _: admin.acl(request.header.subject), UNSET_REMARK),
        R.AUTH_LIST_ACL: value_of(
            lambda request, _: admin.acls(request.header.subject_filter, request.header.resource_filter) or None,
            UNSET_REMARK,
        ),
    }


def _account(request: Request[UserHeader]) -> UserAccount:
    if not request.header.username:
        raise Refused(ResponseCode.INVALID_PARAMETER, "The username is blank")
    account = loads_untrusted(request.body, UserAccount)
    account.username = request.header.username
    return account


def _asker(request: Request[UserHeader]) -> Asker:
    return Asker(request.code, request.header.access_key)


def _acl(request: Request[Any]) -> AclInfo | None:
    return loads_untrusted(request.body, AclInfo) if request.body else None
