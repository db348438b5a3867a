"""The requests about the broker itself (its settings, state, counters, cleaning), about a master and its slaves, and
about users and policies (``AdminBrokerProcessor``, 5.5.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqproto.bodies.acl import AclInfo, UserAccount
from rmqproto.bodies.master import RocksDbProgress
from rmqproto.bodies.routes import KvTable
from rmqproto.codes import RequestCode as R
from rmqproto.codes import ResponseCode
from rmqproto.headers.auth import DeleteAclHeader, ListAclsHeader, ListUsersHeader, SubjectHeader, UserHeader
from rmqproto.headers.controller import HaInfoHeader
from rmqproto.headers.statistics import BrokerConfigAnswer, ViewStatsHeader
from rmqproto.headers.tables import ExportConfigHeader, ReadModeHeader
from rmqproto.wire.fastjson import dumps, loads_untrusted
from rmqserver.broker.admin.auth_admin import Asker
from rmqserver.doors.remoting.held_answers import answer_read
from rmqserver.operation import UNSET_REMARK, Refused
from rmqserver.remoting.answer import Request, refusal, send_answer, success

if TYPE_CHECKING:
    from rmqserver.broker.admin.auth_admin import AuthAdmin
    from rmqserver.broker.admin.broker_admin import BrokerAdmin, MasterAdmin
    from rmqserver.broker.reads import Reads
    from rmqserver.broker.replicas.table_watch import TableWatch
    from rmqserver.remoting.connection import Connection
    from rmqserver.remoting.service import Handler

_CHECK_UNDER_WAY = 2


class BrokerRequests:
    def __init__(self, admin: BrokerAdmin, reads: Reads):
        self._admin = admin
        self._reads = reads

    def handlers(self) -> dict[int, Handler]:
        return {
            R.UPDATE_BROKER_CONFIG: self._update_config,
            R.GET_BROKER_CONFIG: self._config,
            R.GET_BROKER_RUNTIME_INFO: self._state,
            R.VIEW_BROKER_STATS_DATA: self._stats,
            R.CLEAN_EXPIRED_CONSUMEQUEUE: self._clean_expired,
            R.DELETE_EXPIRED_COMMITLOG: self._clean_expired,
            R.CLEAN_UNUSED_TOPIC: self._clean_unused_topics,
        }

    def _update_config(self, request: Request[Any], connection: Connection) -> bytes:
        if request.body:
            self._admin.update_config(request.body, connection)
        return success(request)

    def _config(self, request: Request[Any], connection: Connection) -> bytes:
        version = dumps(self._admin.data_version).decode()
        return success(request, BrokerConfigAnswer(version=version), self._admin.config_text().encode())

    def _state(self, request: Request[Any], connection: Connection) -> None:
        def then(found: KvTable) -> bytes:
            return success(request, body=dumps(found))

        answer_read(self._reads, request, connection, self._admin.state, then)

    def _stats(self, request: Request[ViewStatsHeader], connection: Connection) -> bytes:
        return success(request, body=dumps(self._admin.stats(request.header.stats_name, request.header.stats_key)))

    def _clean_expired(self, request: Request[Any], connection: Connection) -> bytes:
        self._admin.clean_expired(at_any_hour=request.code == R.DELETE_EXPIRED_COMMITLOG)
        return success(request)

    def _clean_unused_topics(self, request: Request[Any], connection: Connection) -> bytes:
        self._admin.clean_unused_topics()
        return success(request)


class MasterRequests:
    def __init__(self, admin: MasterAdmin, watch: TableWatch | None):
        self._admin = admin
        self._watch = watch

    def handlers(self) -> dict[int, Handler]:
        return {
            R.GET_BROKER_HA_STATUS: lambda request, _: success(request, body=dumps(self._admin.status())),
            R.EXCHANGE_BROKER_HA_INFO: self._ha_info,
            R.RESET_MASTER_FLUSH_OFFSET: lambda request, _: success(request),  # a master has nothing to reset
            R.GET_BROKER_EPOCH_CACHE: lambda request, _: refusal(
                request, ResponseCode.SYSTEM_ERROR, "this request only for controllerMode "
            ),
            R.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: self._set_cold_limits,
            R.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: self._remove_cold_limit,
            R.GET_COLD_DATA_FLOW_CTR_INFO: lambda request, _: success(request, body=dumps(self._admin.cold_limits())),
            R.SET_COMMITLOG_READ_MODE: self._set_read_mode,
            R.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: _rocks_db_progress,
            R.EXPORT_ROCKSDB_CONFIG_TO_JSON: self._export_rocks_db,
        }

    def _ha_info(self, request: Request[HaInfoHeader], connection: Connection) -> bytes | None:
        """A slave that watches is answered when there is something to copy."""

        def tell(found: HaInfoHeader) -> None:
            send_answer(request, connection, success(request, found))

        slave_id, stamp = request.header.slave_broker_id, request.header.tables_stamp or 0
        if slave_id is not None and self._watch is not None and self._watch.watch(slave_id, stamp, connection, tell):
            return None
        return success(request, self._admin.ha_info(request.header, connection))

    def _set_cold_limits(self, request: Request[Any], connection: Connection) -> bytes:
        self._admin.set_cold_limits(request.body)
        return success(request)

    def _remove_cold_limit(self, request: Request[Any], connection: Connection) -> bytes:
        """The body is a group."""
        self._admin.remove_cold_limit(request.body.decode(errors="replace"))
        return success(request)

    def _set_read_mode(self, request: Request[ReadModeHeader], connection: Connection) -> bytes:
        mode = self._admin.read_mode(request.header.mode)
        return success(request, remark=f"set commitlog readahead mode success, mode: {mode}")

    def _export_rocks_db(self, request: Request[ExportConfigHeader], connection: Connection) -> bytes:
        self._admin.check_export(request.header.config_type)
        return success(request, remark="export done.")


def _rocks_db_progress(request: Request[Any], connection: Connection) -> bytes:
    """Answers at once, as Apache's broker does, which later writes the outcome of the check to its log."""
    return success(request, body=dumps(RocksDbProgress(check_status=_CHECK_UNDER_WAY)), remark=UNSET_REMARK)


class UserRequests:
    def __init__(self, admin: AuthAdmin):
        self._admin = admin

    def handlers(self) -> dict[int, Handler]:
        return {
            R.AUTH_CREATE_USER: self._create_user,
            R.AUTH_UPDATE_USER: self._update_user,
            R.AUTH_DELETE_USER: self._delete_user,
            R.AUTH_GET_USER: self._user,
            R.AUTH_LIST_USER: self._users,
            R.AUTH_CREATE_ACL: self._put_acl,
            R.AUTH_UPDATE_ACL: self._put_acl,
            R.AUTH_DELETE_ACL: self._delete_acl,
            R.AUTH_GET_ACL: self._acl,
            R.AUTH_LIST_ACL: self._acls,
        }

    def _create_user(self, request: Request[UserHeader], connection: Connection) -> bytes:
        self._admin.create_user(_account(request), _asker(request))
        return _done(request)

    def _update_user(self, request: Request[UserHeader], connection: Connection) -> bytes:
        self._admin.update_user(_account(request), _asker(request))
        return _done(request)

    def _delete_user(self, request: Request[UserHeader], connection: Connection) -> bytes:
        self._admin.delete_user(request.header.username, _asker(request))
        return _done(request)

    def _user(self, request: Request[UserHeader], connection: Connection) -> bytes:
        return _done(request, self._admin.user(request.header.username))

    def _users(self, request: Request[ListUsersHeader], connection: Connection) -> bytes:
        return _done(request, self._admin.users(request.header.filter))

    def _put_acl(self, request: Request[SubjectHeader], connection: Connection) -> bytes:
        info = loads_untrusted(request.body, AclInfo) if request.body else None
        self._admin.put_acl(request.header.subject, info)
        return _done(request)

    def _delete_acl(self, request: Request[DeleteAclHeader], connection: Connection) -> bytes:
        self._admin.delete_acl(request.header.subject, request.header.policy_type, request.header.resource)
        return _done(request)

    def _acl(self, request: Request[SubjectHeader], connection: Connection) -> bytes:
        return _done(request, self._admin.acl(request.header.subject))

    def _acls(self, request: Request[ListAclsHeader], connection: Connection) -> bytes:
        return _done(request, self._admin.acls(request.header.subject_filter, request.header.resource_filter))


def _account(request: Request[UserHeader]) -> UserAccount:
    if not request.header.username:
        raise Refused(ResponseCode.INVALID_PARAMETER, "The username is blank")
    account = loads_untrusted(request.body, UserAccount)
    account.username = request.header.username
    return account


def _asker(request: Request[UserHeader]) -> Asker:
    return Asker(request.code, request.header.access_key)


def _done(request: Request[Any], found: object = None) -> bytes:
    """Answers with what was found, if anything."""
    return success(request, body=dumps(found) if found else b"", remark=UNSET_REMARK)
