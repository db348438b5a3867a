"""All admin calls, typed, over the blocking client: one method per request, one file per noun.

Methods take the address of the server and return bodies of ``rmqproto``. A command that asks several brokers calls them
one by one. All methods raise ConnectError, RequestTimeoutError, RefusedError (its ``code`` says why) and ProtocolError.
A read-only client raises UsageError for every call that could change something.
"""

from __future__ import annotations

from rmqclient.admin.auth import AuthCalls
from rmqclient.admin.brokers import BrokerCalls, FaultCalls, SnapshotCalls
from rmqclient.admin.controllers import ControllerCalls
from rmqclient.admin.groups import GroupCalls
from rmqclient.admin.messages import MessageCalls
from rmqclient.admin.nameservers import NameserverCalls
from rmqclient.admin.offsets import OffsetCalls
from rmqclient.admin.topics import LiteCalls, TopicCalls

__all__ = ["AdminClient"]


class AdminClient(
    NameserverCalls,
    BrokerCalls,
    ControllerCalls,
    TopicCalls,
    GroupCalls,
    OffsetCalls,
    MessageCalls,
    LiteCalls,
    AuthCalls,
    FaultCalls,
    SnapshotCalls,
):
    """``AdminClient("127.0.0.1:9876;127.0.0.2:9876", credentials, timeout_s=5.0, read_only=False)``; see the bases."""
