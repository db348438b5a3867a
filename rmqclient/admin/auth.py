"""Admin calls about who may do what: the users and the ACL that a broker keeps (ACL 2.0, Apache 5.3.0 and later)."""

from __future__ import annotations

from rmqclient.admin.caller import AdminCaller
from rmqproto import fastjson
from rmqproto.bodies import AclInfo, UserInfo
from rmqproto.codes import RequestCode


class AuthCalls(AdminCaller):
    """``broker_addr`` is ``host:port``. A broker that keeps no users refuses both: RefusedError with code 3."""

    def users(self, broker_addr: str) -> list[UserInfo]:
        """Every user of one broker, without passwords (3005)."""
        body = self.call(broker_addr, RequestCode.AUTH_LIST_USER).body
        return fastjson.loads_untrusted(body, list[UserInfo]) if body else []

    def acls(self, broker_addr: str) -> list[AclInfo]:
        """The policies of every subject that has any (3010)."""
        body = self.call(broker_addr, RequestCode.AUTH_LIST_ACL).body
        return fastjson.loads_untrusted(body, list[AclInfo]) if body else []
