"""An in-memory name server and broker with one queue of one topic, which tests can make misbehave."""

import threading
from collections.abc import Callable
from typing import Self

from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import ConsumerIds, Heartbeat
from rmqproto.bodies.routes import BrokerData, QueueData, TopicRoute
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.base import Header, from_ext, to_ext
from rmqproto.headers.consuming import OffsetAnswer, PullAnswer, PullHeader
from rmqproto.headers.sending import SendBackHeader
from rmqproto.message.properties import render
from rmqproto.message.record import StoredMessage, encode_record
from rmqproto.names import RETRY_PREFIX
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from tests.support.peer import Peer, answer

BROKER = "broker-a"
QUEUE = MessageQueue("T", BROKER, 0)
HOST = b"\x7f\0\0\1\0\0\x2a\x9f"
PULL_BATCH = 4


def record(queue_offset: int, body: bytes, tags: str = "A") -> StoredMessage:
    return StoredMessage(
        0, 0, 0, 0, queue_offset, 1000 + queue_offset, 0, 1, HOST, 2, HOST, 0, 0, body, "T",
        render({"TAGS": tags}).encode(),
    )  # fmt: skip


class ScriptedBroker:
    """``override`` sees every request to the broker first; a result other than None is sent as the answer, else what
    ``reply`` returns, the answer of a broker without faults."""

    def __init__(self) -> None:
        self.sent_back: list[SendBackHeader] = []
        self.override: Callable[[Command], object] = lambda request: None
        self._held: list[Command] = []
        self._lock = threading.RLock()
        self.broker = Peer(self._reply)
        self.route = TopicRoute(
            broker_datas=[BrokerData(broker_addrs={0: self.broker.address}, broker_name=BROKER)],
            queue_datas=[QueueData(broker_name=BROKER, perm=6, read_queue_nums=1, write_queue_nums=1)],
        )
        self.namesrv = Peer(self.route_of)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.namesrv.hang_up()
        self.broker.hang_up()

    def route_of(self, request: Command) -> Command:
        return answer(request, body=fastjson.dumps(self.route, standard=True))

    def reply(self, request: Command) -> Command | None:
        raise NotImplementedError

    def _reply(self, request: Command) -> object:
        with self._lock:
            overridden = self.override(request)
            return self.reply(request) if overridden is None else overridden


class FakeBroker(ScriptedBroker):
    """Pulls that find nothing are held until messages arrive."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[StoredMessage] = []
        self.committed: int | None = None
        self.commits: list[int] = []
        self.pulls: list[PullHeader] = []
        self.members: list[str] = []
        self.heartbeats: list[Heartbeat] = []
        self.others: list[str] = []

    def store(self, *bodies: bytes, tags: str = "A") -> None:
        """Stores new messages and answers the held pulls."""
        with self._lock:
            for body in bodies:
                self.messages.append(record(len(self.messages), body, tags))
            held, self._held = self._held, []
        for request in held:
            self.broker.push(self._pull(request))

    def push(self, code: int, fields: Header, body: bytes = b"", opaque: int = 1) -> None:
        self.broker.push(Command(code=code, opaque=opaque, ext=to_ext(fields), body=body))

    def reply(self, request: Command) -> Command | None:
        with self._lock:
            match request.code:
                case RequestCode.PULL_MESSAGE:
                    if not self._is_retry(request):
                        self.pulls.append(from_ext(request.ext, PullHeader))
                        return self._pull(request)
                    return None
                case RequestCode.HEART_BEAT:
                    self.heartbeats.append(fastjson.loads_untrusted(request.body, Heartbeat))
                    self.members = [self.heartbeats[-1].client_id]
                case RequestCode.GET_CONSUMER_LIST_BY_GROUP:
                    members = ConsumerIds(consumer_id_list=sorted(self.members + self.others))
                    return answer(request, body=fastjson.dumps(members))
                case RequestCode.QUERY_CONSUMER_OFFSET:
                    if self._is_retry(request) or self.committed is None:
                        return answer(request, ResponseCode.QUERY_NOT_FOUND)
                    return answer(request, fields=OffsetAnswer(offset=self.committed))
                case RequestCode.UPDATE_CONSUMER_OFFSET if not self._is_retry(request):
                    self.committed = int(request.ext["commitOffset"])
                    self.commits.append(self.committed)
                case RequestCode.GET_MAX_OFFSET:
                    return answer(request, fields=OffsetAnswer(offset=len(self.messages)))
                case RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
                    return answer(request, fields=OffsetAnswer(offset=1))
                case RequestCode.CONSUMER_SEND_MSG_BACK:
                    self.sent_back.append(from_ext(request.ext, SendBackHeader))
            return answer(request)

    @staticmethod
    def _is_retry(request: Command) -> bool:
        return request.ext["topic"].startswith(RETRY_PREFIX)

    def _pull(self, request: Command) -> Command | None:
        """The answer, if there are messages; otherwise holds the pull and returns None."""
        header = from_ext(request.ext, PullHeader)
        found = self.messages[header.queue_offset : header.queue_offset + PULL_BATCH]
        if not found and header.queue_offset <= len(self.messages):
            self._held.append(request)
            return None
        code, next_offset = ResponseCode.SUCCESS, header.queue_offset + len(found)
        if not found:
            code, next_offset = ResponseCode.PULL_OFFSET_MOVED, len(self.messages)
        offsets = PullAnswer(
            suggest_which_broker_id=0, next_begin_offset=next_offset, min_offset=0, max_offset=len(self.messages)
        )
        return answer(request, code, offsets, b"".join(map(encode_record, found)))
