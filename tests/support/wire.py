"""A raw client: it sends whole frames and receives commands. It can also send what no good client would."""

import socket
from collections.abc import Mapping
from typing import Self

from rmqproto.bodies.routes import ClusterInfo, TopicRoute
from rmqproto.codes import ONEWAY_FLAG, VERSION, RequestCode, ResponseCode
from rmqproto.headers.base import Header, to_ext
from rmqproto.headers.nameserver import RouteHeader
from rmqproto.headers.tables import TopicConfigHeader
from rmqproto.wire import fastjson
from rmqproto.wire.command import Command, FrameReader, HeaderCodec, encode_frame

TIMEOUT_S = 20.0
"""Far longer than any answer takes on a busy machine: a test that reaches it fails anyway."""


class Wire:
    """One connection. ``close`` it, or use it as a context manager."""

    def __init__(self, address: str):
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._reader = FrameReader()
        self._received: list[Command] = []
        self._opaque = 1000

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def hang_up(self) -> None:
        """Ends the connection while another thread receives; that thread gets EOFError."""
        self._socket.shutdown(socket.SHUT_RDWR)

    @property
    def address(self) -> str:
        """Our address, which the server sees as its peer's."""
        host, port = self._socket.getsockname()[:2]
        return f"{host}:{port}"

    def send(self, frame: bytes) -> None:
        self._socket.sendall(frame)

    def receive(self) -> Command:
        """The next frame of any kind. EOFError if the server closed the connection."""
        while not self._received:
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionResetError:  # closed while some of our bytes were unread
                data = b""
            if not data:
                raise EOFError("the server closed the connection")
            self._received += self._reader.feed(data)
        return self._received.pop(0)

    def exchange(self, frame: bytes) -> Command:
        """Sends a frame as it is, and returns the next command."""
        self.send(frame)
        return self.receive()

    def ask(
        self,
        code: int,
        fields: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        version: int = VERSION,
        language: str = "JAVA",
        codec: HeaderCodec = HeaderCodec.JSON,
    ) -> Command:
        """The answer to a request. Requests and notices from the server in between are skipped."""
        self._opaque += 1
        ext = to_ext(fields) if isinstance(fields, Header) else dict(fields or {})
        self.send(
            encode_frame(
                Command(
                    code=code, opaque=self._opaque, ext=ext, body=body, version=version, language=language, codec=codec
                )
            )
        )
        while True:
            answer = self.receive()
            if answer.is_answer and answer.opaque == self._opaque:
                return answer

    def tell(self, code: int, fields: Header | Mapping[str, str] | None = None, body: bytes = b"") -> None:
        """Sends a oneway request."""
        ext = to_ext(fields) if isinstance(fields, Header) else dict(fields or {})
        self.send(encode_frame(Command(code=code, ext=ext, body=body, flag=ONEWAY_FLAG)))

    # --- what many tests ask -----------------------------------------------------------------------------------------

    def cluster_addrs(self) -> dict[str, dict[int, str]]:
        """Asks a nameserver for the addresses, by broker name and id."""
        answer = self.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
        table = fastjson.loads_untrusted(answer.body, ClusterInfo).broker_addr_table
        return {name: data.broker_addrs for name, data in table.items()}

    def route(self, topic: str) -> TopicRoute | None:
        """Asks a nameserver for a route; None if it does not know the topic."""
        answer = self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteHeader(topic=topic))
        return (
            None if answer.code == ResponseCode.TOPIC_NOT_EXIST else fastjson.loads_untrusted(answer.body, TopicRoute)
        )

    def create_topic(self, topic: str, queue_nums: int = 4) -> None:
        """Creates the topic on a broker."""
        header = TopicConfigHeader(topic=topic, read_queue_nums=queue_nums, write_queue_nums=queue_nums, perm=6)
        answer = self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        assert answer.code == 0, answer.remark
