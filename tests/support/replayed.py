"""A server that answers as a real Apache RocketMQ 5.5.0 did in the recorded exchanges. It is broker, controller and
name server at one address. Use it for requests that our own server does not serve."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rmqproto.bodies.routes import BrokerData, ClusterInfo, QueueData, TopicRoute
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.errors import ProtocolError
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command, FrameReader
from tests.support.golden import exchange
from tests.support.peer import Peer, answer

RECORDED_ADDRS = ("127.0.0.1:10911", "127.0.0.1:10921", "127.0.0.1:10931", "127.0.0.1:9878", "127.0.0.1:9876")
"""The addresses of the recorded servers. In answers and texts the replaying server's address replaces them."""

_VARYING = {"invokeTime", "checkStoreTime"}
"""Ext fields that differ in every request."""

Answer = Callable[[Command], Command | None]
"""Takes a request. Returns None if the request is for another one."""


class Replayed(Peer):
    """Answers the requests of the named exchanges (``3004-AUTH_GET_USER/01``) and those that ``answers`` know. The
    routes and the cluster are its own: ``broker_name`` in DefaultCluster, at its own address. To all other requests it
    answers that it does not support them."""

    def __init__(self, *exchanges: str, answers: Sequence[Answer] = (), broker_name: str = "broker-a"):
        self._broker_name = broker_name
        self._answers = (*answers, *(_recorded(name) for name in exchanges), self._route, self._cluster)
        super().__init__(self._replayed)

    def here(self, text: str) -> str:
        """A recorded text or command line with this server's address in place of the recorded ones."""
        for addr in RECORDED_ADDRS:
            text = text.replace(addr, self.address)
        return text

    def _replayed(self, request: Command) -> Command:
        found = next((said for ask in self._answers if (said := ask(request)) is not None), None)
        if found is None:
            remark = f" request type {request.code} not supported"
            return answer(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
        ext = {name: self.here(value) for name, value in found.ext.items()}
        body = self.here(found.body.decode("latin-1")).encode("latin-1")
        return answer(request, found.code, ext, body, found.remark)

    @property
    def _broker(self) -> BrokerData:
        return BrokerData(broker_addrs={0: self.address}, broker_name=self._broker_name, cluster="DefaultCluster")

    def _route(self, request: Command) -> Command | None:
        if request.code != RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return None
        queues = QueueData(broker_name=self._broker_name, perm=6, read_queue_nums=4, write_queue_nums=4)
        return Command(code=0, body=fastjson.dumps(TopicRoute(broker_datas=[self._broker], queue_datas=[queues])))

    def _cluster(self, request: Command) -> Command | None:
        if request.code != RequestCode.GET_BROKER_CLUSTER_INFO:
            return None
        name = self._broker_name
        info = ClusterInfo(broker_addr_table={name: self._broker}, cluster_addr_table={"DefaultCluster": [name]})
        return Command(code=0, body=fastjson.dumps(info))


def answering(code: int, body: Any = None, *, ext: Mapping[str, str] | None = None, answer_code: int = 0) -> Answer:
    """Answers every request of a code, for exchanges that were not recorded: ``body`` is sent as JSON."""

    said = Command(code=answer_code, ext=dict(ext or {}), body=b"" if body is None else fastjson.dumps(body))
    return lambda request: said if request.code == code else None


def _recorded(name: str) -> Answer:
    """Gives the recorded answer to a request that says the same as the recorded one."""
    found = exchange(name)
    (asked,) = FrameReader().feed(found.recorded_request)
    assert found.recorded_answer is not None, f"{name} has no answer"
    wanted = _said(asked)

    return lambda request: found.recorded_answer if _said(request) == wanted else None


def _said(request: Command) -> Any:
    """The contents of a request to compare; a JSON body counts by its members."""
    body: Any = request.body
    if body[:1] in (b"{", b"["):
        with contextlib.suppress(ProtocolError):
            body = fastjson.parse_untrusted(body)
    return request.code, {name: value for name, value in request.ext.items() if name not in _VARYING}, body
