"""Who calls, and what a caller may (``AuthenticationPipeline``, ``AuthorizationPipeline``, 5.5.0): users and policies
as for the remoting protocol. Clients sign the value of ``x-mq-date-time`` alone, with HMAC-SHA1."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from rmqproto.access.resources import Action, Resource, ResourceType, group_resource
from rmqproto.access.users import User, barred, judge
from rmqserver.doors.grpc.codes import CallRefused, Code, refuse_if
from rmqserver.doors.grpc.messages import value

if TYPE_CHECKING:
    from rmqserver.auth.auth_settings import AuthSettings
    from rmqserver.auth.auth_table import AuthTable
    from rmqserver.doors.grpc.http2_frames import Metadata

PRODUCER = value("ClientType", "PRODUCER")
_ANY_USE = (Action.PUB, Action.SUB, Action.GET)

Need = tuple[Resource, tuple[Action, ...]]


class Guard:
    """Stands before each call."""

    def __init__(self, settings: AuthSettings, table: AuthTable):
        self._settings = settings
        self._table = table

    def check(self, metadata: Metadata, real_address: str, needs: Iterable[Need]) -> str:
        """Who calls. Raises CallRefused if the sender is not proven, or may not."""
        user = self._user(metadata)
        if self._settings.is_authorizing and not user.is_super:
            acl, source = self._table.acl_of(user.name), real_address.rpartition(":")[0]
            for resource, actions in needs:
                refusal = judge(user, acl, resource, actions, source).refusal
                _refuse_if(refusal, refusal)
        return user.name

    def _user(self, metadata: Metadata) -> User:
        text = metadata.get(b"authorization", b"").decode("latin-1")
        scheme, _, rest = text.partition(" ")
        _refuse_if(scheme and not rest, "authentication header is incorrect.")
        said = dict(part.strip().partition("=")[::2] for part in rest.split(","))
        name = said.get("Credential", "").partition("/")[0]
        _refuse_if(not name, "username cannot be null.")
        when = metadata.get(b"x-mq-date-time", b"")
        _refuse_if(not when, "datetime is null.")
        user = self._table.user(name)
        refusal = barred(name, user)
        if user is None or refusal:
            raise CallRefused(Code.UNAUTHORIZED, refusal)
        expected = hmac.new(user.password.encode(), when, "sha1").hexdigest().encode()
        signature = said.get("Signature", "").lower().encode("latin-1", "replace")
        _refuse_if(not hmac.compare_digest(expected, signature), "check signature failed.")
        return user


def _refuse_if(is_wrong: object, text: str) -> None:
    refuse_if(is_wrong, Code.UNAUTHORIZED, text)


def needs_of(name: str, request: Any) -> Iterator[Need]:
    """What a call needs, in the order of judging."""
    if name == "QueryRoute":
        yield _topic(request.topic.name), _ANY_USE
    elif name == "SendMessage":
        for topic in dict.fromkeys(message.topic.name for message in request.messages):
            yield to_send(topic)
    elif name in ("EndTransaction", "RecallMessage"):
        yield to_send(request.topic.name)
    elif name == "Telemetry":
        for topic in request.settings.publishing.topics:
            yield to_send(topic.name)
        if request.settings.WhichOneof("pub_sub") == "subscription":
            wanted = request.settings.subscription
            yield from to_consume(wanted.group.name, *(entry.topic.name for entry in wanted.subscriptions))
    elif name in ("Heartbeat", "NotifyClientTermination"):
        takes_part = name != "Heartbeat" or request.client_type != PRODUCER
        if takes_part and request.group.name:
            yield from to_consume(request.group.name)
    else:
        topic = request.message_queue.topic if name == "ReceiveMessage" else request.topic
        yield from to_consume(request.group.name, topic.name)


def to_send(topic: str) -> Need:
    return _topic(topic), (Action.PUB,)


def to_consume(group: str, *topics: str) -> Iterator[Need]:
    yield group_resource(group), (Action.SUB,)
    for topic in topics:
        yield _topic(topic), (Action.SUB,)


def _topic(name: str) -> Resource:
    """By its own name, also a retry topic: as a proxy judges, unlike a broker."""
    return Resource(ResourceType.TOPIC, name)
