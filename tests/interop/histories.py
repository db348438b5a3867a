"""Histories of one queue: which client sent or read what, when, and with which result. ``verdict`` asks porcupine, a
checker of linearizability, whether one queue can have behaved so."""

import itertools
import subprocess
import time
from pathlib import Path

import msgspec

from rmqclient.admin import AdminClient
from rmqclient.message import Message, SendStatus
from rmqproto.bodies.base import MessageQueue
from rmqproto.codes import ResponseCode
from rmqproto.errors import RefusedError, RocketMQError

from .other_clients import go_program

READ_MAX = 16
_NOTHING_IS_STORED = {ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_BUSY}
_MAY_BE_DONE = "it may be done or not"
_TOO_FEW = "in-sync replicas not enough"


class Operation(msgspec.Struct, frozen=True):
    """A line of the history; ``porcupine/check.go`` says what each kind means."""

    kind: str
    values: tuple[int, ...]
    offset: int = 0
    client: int = 0
    call_ns: int = 0
    return_ns: int = 0


class History:
    """The history of one queue. Any thread may add to it."""

    def __init__(self, queue: MessageQueue):
        self.queue = queue
        self.operations: list[Operation] = []
        self.stored = 0
        """The number of acknowledged sends."""
        self._values = itertools.count()

    def send(self, admin: AdminClient, addr: str, client: int) -> bool:
        """Sends a value that is sent only once. Returns whether it was acknowledged as stored."""
        value, call_ns = next(self._values), time.monotonic_ns()
        kind, offset = "unknown", 0
        try:
            result = admin.send_message(addr, self.queue, Message(self.queue.topic, b"%d" % value))
            if result.status is SendStatus.SEND_OK:
                kind, offset = "stored", result.queue_offset
        except RefusedError as error:
            is_sure = error.code in _NOTHING_IS_STORED and _MAY_BE_DONE not in error.remark
            if is_sure or _TOO_FEW in error.remark:
                kind = "refused"
        except RocketMQError:
            pass
        self.operations.append(Operation(kind, (value,), offset, client, call_ns, time.monotonic_ns()))
        self.stored += kind == "stored"
        return kind == "stored"

    def read(self, admin: AdminClient, addr: str, offset: int, client: int, *, is_last: bool = False) -> int:
        """Returns how many messages were read. An empty read is recorded only with ``is_last``: before that, the reader
        may just be behind."""
        call_ns = time.monotonic_ns()
        messages = admin.pull_message(addr, self.queue, offset, max_count=READ_MAX).messages
        values = tuple(int(message.body) for message in messages)
        assert [message.queue_offset for message in messages] == list(range(offset, offset + len(values)))
        if values or is_last:
            self.operations.append(Operation("read", values, offset, client, call_ns, time.monotonic_ns()))
        return len(messages)

    def read_all(self, admin: AdminClient, addr: str, client: int) -> None:
        offset = 0
        while count := self.read(admin, addr, offset, client, is_last=True):
            offset += count


def verdict(operations: list[Operation], *drawing: Path) -> str:
    """``Ok``, ``Illegal`` or, after five minutes, ``Unknown``. An illegal history is drawn into the ``drawing`` file,
    as HTML."""
    program = go_program("porcupine", "history")
    lines = b"".join(msgspec.json.encode(operation) + b"\n" for operation in operations)
    ended = subprocess.run([program, *drawing], input=lines, capture_output=True, timeout=600, check=True)
    return str(msgspec.json.decode(ended.stdout)["result"])
