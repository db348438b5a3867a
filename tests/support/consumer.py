"""An online consumer that reports about itself what a test tells it to."""

import socket
import threading
from typing import Self

from rmqproto.bodies.groups import Heartbeat
from rmqproto.bodies.statistics import ConsumerRunningInfo, ConsumerStatus
from rmqproto.codes import RESPONSE_FLAG, RequestCode
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command, encode_frame
from tests.support.wire import Wire

BEAT_EVERY_S = 20.0
"""A broker forgets a client after two minutes without a heartbeat, and on a busy machine tests take longer."""


class TalkingConsumer(Wire):
    """Sends heartbeats and answers requests in a thread until ``with`` is left, which also closes the connection.
    ``info_body`` answers requests for its running info (307). Requests for its offsets (221) get those of the same
    queues."""

    def __init__(self, broker_addr: str, heartbeat: Heartbeat, info: ConsumerRunningInfo):
        super().__init__(broker_addr)
        self._beat = fastjson.dumps(heartbeat)
        assert self.ask(RequestCode.HEART_BEAT, {}, self._beat).code == 0
        self.info_body = fastjson.dumps(info)
        offsets = {queue: state.commit_offset for queue, state in info.mq_table.items()}
        self._offsets_body = fastjson.dumps(ConsumerStatus(message_queue_table=fastjson.ObjectMap(offsets)))
        self._socket.settimeout(BEAT_EVERY_S)
        self._thread = threading.Thread(target=self._answer)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self.close()

    def _answer(self) -> None:
        while True:
            try:
                request = self.receive()
            except TimeoutError:
                self.tell(RequestCode.HEART_BEAT, {}, self._beat)
                continue
            except (EOFError, OSError):
                return
            bodies: dict[int, bytes] = {
                RequestCode.GET_CONSUMER_RUNNING_INFO: self.info_body,
                RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._offsets_body,
            }
            if request.code in bodies and not request.is_answer:
                answer = Command(code=0, opaque=request.opaque, flag=RESPONSE_FLAG, body=bodies[request.code])
                self.send(encode_frame(answer))
