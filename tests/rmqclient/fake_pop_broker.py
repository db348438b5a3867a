"""An in-memory name server and broker. Pops get the messages that a test has stored, and what clients report about them
is kept."""

import msgspec

from rmqproto.allocate import POP_ALL_QUEUES
from rmqproto.bodies.base import MessageQueue
from rmqproto.bodies.groups import SubscriptionGroupConfig
from rmqproto.bodies.popping import Assignments, BatchAcks, QueueAssignment
from rmqproto.codes import RequestCode, ResponseCode
from rmqproto.headers.base import from_ext
from rmqproto.headers.popping import (
    AckHeader,
    ChangeInvisibleTimeAnswer,
    ChangeInvisibleTimeHeader,
    PopAnswer,
    PopHeader,
)
from rmqproto.headers.sending import SendBackHeader
from rmqproto.message.record import StoredMessage, encode_record
from rmqproto.names import RETRY_PREFIX
from rmqproto.pop import diffs_of_untrusted, parse_handle_untrusted
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command
from tests.rmqclient.fake_broker import BROKER, ScriptedBroker, record
from tests.support.peer import answer

POP_TIME_MS = 1_700_000_000_000
REVIVE_QUEUE_ID = 3
RETRY_MAX_TIMES = 4


class FakePopBroker(ScriptedBroker):
    """A pop that finds nothing is held until messages arrive. ``acked`` holds the queue offset and pop time of each
    acknowledged message."""

    def __init__(self, mode: str = "POP") -> None:
        super().__init__()
        self.mode = mode
        self.ready: list[StoredMessage] = []
        self.pops: list[PopHeader] = []
        self.acked: list[tuple[int, int]] = []
        self.changes: list[ChangeInvisibleTimeHeader] = []
        self._stored = 0

    def store(self, *bodies: bytes, tags: str = "A", reconsume_times: int = 0) -> None:
        """Stores new messages and answers the held pops."""
        with self._lock:
            for body in bodies:
                stored = record(self._stored, body, tags)
                self.ready.append(msgspec.structs.replace(stored, reconsume_times=reconsume_times))
                self._stored += 1
            held, self._held = self._held, []
        for request in held:
            self.broker.push(self._pop(request))

    @property
    def acked_offsets(self) -> list[int]:
        return sorted(queue_offset for queue_offset, _ in self.acked)

    def route_of(self, request: Command) -> Command:
        is_retry = request.ext["topic"].startswith(RETRY_PREFIX)
        return answer(request, ResponseCode.TOPIC_NOT_EXIST) if is_retry else super().route_of(request)

    def reply(self, request: Command) -> Command | None:
        with self._lock:
            match request.code:
                case RequestCode.QUERY_ASSIGNMENT:
                    queue = MessageQueue("T", BROKER, POP_ALL_QUEUES if self.mode == "POP" else 0)
                    assigned = [QueueAssignment(message_queue=queue, mode=self.mode)]
                    return answer(request, body=fastjson.dumps(Assignments(message_queue_assignments=assigned)))
                case RequestCode.SET_MESSAGE_REQUEST_MODE:
                    self.mode = "POP"
                case RequestCode.POP_MESSAGE:
                    self.pops.append(from_ext(request.ext, PopHeader))
                    return self._pop(request)
                case RequestCode.ACK_MESSAGE:
                    ack = from_ext(request.ext, AckHeader)
                    self.acked.append((ack.offset, parse_handle_untrusted(ack.extra_info).pop_time_ms))
                case RequestCode.BATCH_ACK_MESSAGE:
                    for each in fastjson.loads_untrusted(request.body, BatchAcks).acks or ():
                        diffs = diffs_of_untrusted(each.bits)
                        self.acked += [(each.start_offset + diff, each.pop_time) for diff in diffs]
                case RequestCode.CHANGE_MESSAGE_INVISIBLETIME:
                    header = from_ext(request.ext, ChangeInvisibleTimeHeader)
                    self.changes.append(header)
                    changed = ChangeInvisibleTimeAnswer(
                        pop_time=parse_handle_untrusted(header.extra_info).pop_time_ms + 1,
                        invisible_time=header.invisible_time,
                        revive_qid=REVIVE_QUEUE_ID,
                    )
                    return answer(request, fields=changed)
                case RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG:
                    config = SubscriptionGroupConfig(group_name="group", retry_max_times=RETRY_MAX_TIMES)
                    return answer(request, body=fastjson.dumps(config))
                case RequestCode.CONSUMER_SEND_MSG_BACK:
                    self.sent_back.append(from_ext(request.ext, SendBackHeader))
            return answer(request)

    def _pop(self, request: Command) -> Command | None:
        """The answer, if there are messages; otherwise holds the pop and returns None."""
        header = from_ext(request.ext, PopHeader)
        with self._lock:
            found, self.ready = self.ready[: header.max_msg_nums], self.ready[header.max_msg_nums :]
            if not found:
                self._held.append(request)
                return None
        popped = PopAnswer(
            pop_time=POP_TIME_MS,
            invisible_time=header.invisible_time,
            revive_qid=REVIVE_QUEUE_ID,
            start_offset_info=f"0 0 {found[0].queue_offset}",
            msg_offset_info=f"0 0 {','.join(str(message.queue_offset) for message in found)}",
        )
        return answer(request, fields=popped, body=b"".join(map(encode_record, found)))
