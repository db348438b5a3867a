"""The gate of ACL 1.0 (``PlainPermissionManager.validate``, 5.3.2). It admits a white address, or else checks the
account, its signature and its permissions. What a request needs is in ``request_rules.py``, as for users and policies.

A refusal is 1 SYSTEM_ERROR with the class and text of Apache's ``AclException``; Apache also adds the line of its
source.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping
from typing import Any

import trio

from rmqproto.access.resources import Action
from rmqproto.codes import ResponseCode
from rmqproto.errors import ProtocolError, UsageError
from rmqproto.headers.base import NoFields
from rmqproto.headers.request_table import REQUEST_HEADERS
from rmqproto.names import TRACE_TOPIC
from rmqproto.wire.signing import ACCESS_KEY
from rmqserver.auth.plain_acl.plain_files import Account, Perm, PlainFiles
from rmqserver.logs import Seldom
from rmqserver.operation import Refused
from rmqserver.remoting.answer import Request
from rmqserver.remoting.connection import Connection
from rmqserver.remoting.gate import TakeOver
from rmqserver.request_rules import SERVED
from rmqserver.system import WATCH_INTERVAL_S

log = logging.getLogger(__name__)

DROPPED_CODES = {
    50: "updateAclConfig", 51: "deleteAclConfig", 52: "clusterAclConfigVersion", 53: "updateGlobalWhiteAddr",
    54: "getAclConfig",
}  # fmt: skip
"""Former requests that changed and read these files; 5.5.0 knows none of them."""

_INSTEAD = "edit conf/plain_acl.yml or conf/acl/*.yml, which are watched, or take users and policies (3001 to 3010)"

_EXCEPTION = "org.apache.rocketmq.acl.common.AclException: "
_PERM_OF = {Action.PUB: Perm.PUB, Action.SUB: Perm.SUB}
_NAME_SHOWN_MAX_CHARS = 64


class PlainGate:
    """The gate of one service. ``watch`` is a task."""

    wants_ext = True

    def __init__(self, home: str, cluster: str, served: Container[int]):
        """Raises UsageError for files that cannot be used."""
        self._files = PlainFiles(home)
        self._seen = self._files.stamps()
        self._acl = self._files.read()
        self._cluster = cluster
        self._served = served
        self._seldom = Seldom()

    async def watch(self) -> None:
        """Reloads changed files, which count from the next request on. While they cannot be used, the content read
        before stays in force."""
        while True:
            await trio.sleep(WATCH_INTERVAL_S)
            found = self._files.stamps()
            if found == self._seen:
                continue
            self._seen = found
            try:
                self._acl = await trio.to_thread.run_sync(self._files.read)
            except UsageError as error:
                log.error("event=accounts-not-loaded reason=%r until=%r", str(error), "the files change again")
            else:
                log.info("event=accounts-loaded accounts=%d files=%s", len(self._acl.accounts), ",".join(found))

    def admit(self, request: Request[Any], ext: Mapping[str, str], connection: Connection) -> TakeOver | None:
        """Never takes a request over. Logs refusals at a limited rate for each account."""
        why = self._refusal(request, ext, connection.real_address.rpartition(":")[0])
        if why is None:
            if request.code in DROPPED_CODES:
                raise Refused(
                    ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                    f" request type {request.code} not supported: {_INSTEAD}",
                )
            return None
        name = ext.get(ACCESS_KEY, "")[:_NAME_SHOWN_MAX_CHARS]
        if self._seldom.is_due(name):
            log.warning(
                "event=refused-request account=%r peer=%s code=%d reason=%r",
                name, connection.address, request.code, why[:200],
            )  # fmt: skip
        raise Refused(ResponseCode.SYSTEM_ERROR, _EXCEPTION + why)

    def _refusal(self, request: Request[Any], ext: Mapping[str, str], host: str) -> str | None:
        """Why the request may not pass; None if it may."""
        if any(white.has(host) for white in self._acl.global_white):
            return None
        name = ext.get(ACCESS_KEY)
        if name is None:
            return "No accessKey is configured"
        account = self._acl.accounts.get(name)
        if account is None:
            return f"No acl config for {name}"
        if account.white_addresses.has(host):
            return None
        if not account.signing_key.has_signed(ext, request.body, request.version):
            return f"Check signature failed for accessKey={name}"
        return None if account.is_admin else self._missing(request, account)

    def _missing(self, request: Request[Any], account: Account) -> str | None:
        code = request.code
        need = SERVED.get(code)
        is_admins = need.is_admins if need is not None else code in self._served or code in DROPPED_CODES
        if is_admins:
            return f"Need admin permission for request code={code}, but accessKey={account.access_key} is not"
        if need is None or need.plain is None:
            return None
        if REQUEST_HEADERS.get(code, NoFields) is not NoFields and isinstance(request.header, NoFields):
            return "the request's fields cannot be read"
        try:
            pairs = list(need.plain(request, self._cluster))
        except ProtocolError as error:
            return str(error)
        for resource, actions in pairs:
            perm = next(_PERM_OF[action] for action in actions if action in _PERM_OF)
            if resource.name == TRACE_TOPIC and perm is Perm.PUB:
                continue  # every producer with tracing sends there
            why = account.refusal(resource, perm)
            if why is not None:
                return why
        return None
