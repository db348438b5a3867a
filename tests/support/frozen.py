"""A broker that is sent messages while it is frozen. When it wakes it sees them first, before anybody can tell it that
another broker is the master."""

import os
import signal

from rmqproto.codes import RequestCode
from rmqproto.headers.base import to_ext
from rmqproto.headers.sending import SendHeaderV2
from rmqproto.wire.command import Command, encode_frame
from tests.support.wire import Wire

COUNT = 16


class Frozen:
    """Freezes the process at once. The caller must ``wake`` it."""

    def __init__(self, pid: int, addr: str):
        self._pid = pid
        self._wire = Wire(addr)
        os.kill(pid, signal.SIGSTOP)

    def send(self, topic: str = "Kept") -> None:
        header = SendHeaderV2(
            producer_group="G", topic=topic, default_topic="TBW102", default_topic_queue_nums=4, queue_id=0,
            born_timestamp=1_700_000_000_000,
        )  # fmt: skip
        for opaque in range(COUNT):
            request = Command(code=RequestCode.SEND_MESSAGE_V2, opaque=opaque, ext=to_ext(header), body=b"alone")
            self._wire.send(encode_frame(request))

    def wake(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    def answered(self) -> list[int]:
        """The codes of the answers to what was sent. A broker closes its connections when its role changes."""
        codes: list[int] = []
        try:
            while len(codes) < COUNT:
                codes.append(self._wire.receive().code)
        except EOFError:
            pass
        finally:
            self._wire.close()
        return codes
