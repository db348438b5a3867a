"""HTTP/2 as a good client speaks it, by another engine, and as no good client does, frame by frame."""

import struct
import tracemalloc
from typing import Any

import h2.config
import h2.connection
import h2.settings
import pytest

from rmqproto.errors import ProtocolError
from rmqserver.core.header_blocks import Headers, encode_block
from rmqserver.doors.grpc.http2 import (
    CANCELLED_MAX,
    FRAMES_AT_ONCE_MAX,
    FRAMES_AT_ONCE_MIN,
    STREAM_WINDOW_BYTES,
    STREAMS_MAX,
    Http2,
)
from rmqserver.doors.grpc.http2_frames import PREFACE, StreamEvent

ASKED: Headers = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/x"), (b":authority", b"a")]
METADATA = dict(ASKED)
HEAD = encode_block([(b":status", b"200")])


class Peer:
    """A client, and our side of its connection."""

    def __init__(self) -> None:
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding=None))
        self.h2.initiate_connection()
        self.http2 = Http2()
        self.pass_on()

    def pass_on(self) -> list[Any]:
        """All that the client has said goes over in one piece."""
        events = list(self.http2.received(self.h2.data_to_send()))
        self.h2.receive_data(self.http2.to_send())
        return events


@pytest.fixture
def peer() -> Peer:
    return Peer()


def test_a_request_is_told_piece_by_piece(peer: Peer) -> None:
    peer.h2.send_headers(1, ASKED)
    assert peer.pass_on() == [StreamEvent(1, METADATA)]
    peer.h2.send_data(1, b"abc", end_stream=True)
    assert peer.pass_on() == [StreamEvent(1, None, b"abc", is_last=True)]


def test_a_request_that_comes_whole_is_told_at_once(peer: Peer) -> None:
    for stream in (1, 3):
        peer.h2.send_headers(stream, ASKED)
        peer.h2.send_data(stream, b"abc", end_stream=True)
    assert peer.pass_on() == [
        StreamEvent(1, METADATA, b"abc", is_last=True),
        StreamEvent(3, METADATA, b"abc", is_last=True),
    ]


def test_a_request_that_is_cancelled_with_the_same_bytes_is_not_begun(peer: Peer) -> None:
    peer.h2.send_headers(1, ASKED)
    peer.h2.send_data(1, b"abc", end_stream=True)
    peer.h2.reset_stream(1)
    peer.h2.send_headers(3, ASKED, end_stream=True)
    assert peer.pass_on() == [StreamEvent(1, is_gone=True), StreamEvent(3, METADATA, b"", is_last=True)]


def test_a_window_that_opens_for_a_cancelled_stream_takes_nothing(peer: Peer) -> None:
    peer.h2.increment_flow_control_window(1 << 20)
    peer.h2.send_headers(1, ASKED, end_stream=True)
    peer.pass_on()
    peer.http2.put(1, HEAD)
    peer.http2.put(1, data=b"x" * 100_000)
    peer.pass_on()
    assert peer.http2.queued_bytes
    peer.h2.increment_flow_control_window(1 << 20, 1)
    peer.h2.reset_stream(1)
    assert peer.pass_on() == [StreamEvent(1, is_gone=True)]
    assert peer.http2.queued_bytes == 0


def test_many_windows_that_open_at_once_are_looked_at_once(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 KiB of them, and a thousand answers that wait, once took seconds."""
    peer.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
    for stream in (1, 3):
        peer.h2.send_headers(stream, ASKED, end_stream=True)
    peer.pass_on()
    for stream in (1, 3):
        peer.http2.put(stream, HEAD)
        peer.http2.put(stream, data=b"answer")
    looked_at: list[int] = []
    monkeypatch.setattr(peer.http2, "_send_queued", looked_at.append)
    for _ in range(100):
        peer.h2.increment_flow_control_window(1)
    peer.pass_on()
    assert looked_at == [1, 3]


def test_settings_without_end_are_not_taken(peer: Peer) -> None:
    """64 KiB of them, and a thousand streams, would take a second."""
    for size in range(10):
        peer.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: size})
    assert not peer.pass_on(), "a few are"
    for size in range(20):
        peer.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: size})
    with pytest.raises(ProtocolError, match="so many settings"):
        peer.pass_on()


# --- what breaks the rules, as h2spec asks it -------------------------------------------------------------------------

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM = ACK = 1
END_HEADERS, PADDED = 4, 8
PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED, FRAME_SIZE_ERROR = 1, 3, 5, 6
REFUSED_STREAM, COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 7, 9, 11
BLOCK = encode_block(ASKED)


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload) << 8 | kind) + bytes([flags]) + struct.pack(">I", stream) + payload


def setting(number: int, value: int) -> bytes:
    return frame(SETTINGS, payload=struct.pack(">HI", number, value))


def request(stream: int, flags: int = END_HEADERS | END_STREAM, block: bytes = BLOCK) -> bytes:
    return frame(HEADERS, flags, stream, block)


def take(http2: Http2, data: bytes) -> list[StreamEvent]:
    """All events of the bytes, in as many turns as they need."""
    events = list(http2.received(data))
    while http2.has_more:
        events += http2.received(b"")
    return events


def u32(value: int) -> bytes:
    return struct.pack(">I", value)


def frames_of(data: bytes) -> list[tuple[int, int, int, bytes]]:
    found = []
    while data:
        size, stream = int.from_bytes(data[:3], "big"), int.from_bytes(data[5:9], "big")
        found.append((data[3], data[4], stream, data[9 : 9 + size]))
        data = data[9 + size :]
    return found


@pytest.fixture
def http2() -> Http2:
    """One whose peer has said hello, and opened stream 1."""
    made = Http2()
    list(made.received(PREFACE + frame(SETTINGS) + request(1, END_HEADERS)))
    made.to_send()
    return made


@pytest.mark.parametrize(
    ("said", "code"),
    [
        pytest.param(frame(DATA, 0, 0, b"x"), PROTOCOL_ERROR, id="data of no stream"),
        pytest.param(frame(DATA, 0, 5, b"x"), PROTOCOL_ERROR, id="data of a stream that was not opened"),
        pytest.param(frame(DATA, PADDED, 1, b"\5abc"), PROTOCOL_ERROR, id="padding longer than its frame"),
        pytest.param(frame(DATA, 0, 1, bytes(16_385)), FRAME_SIZE_ERROR, id="long frame"),
        pytest.param(request(0), PROTOCOL_ERROR, id="headers of no stream"),
        pytest.param(request(2), PROTOCOL_ERROR, id="even stream"),
        pytest.param(request(5) + request(3), PROTOCOL_ERROR, id="stream before another"),
        pytest.param(request(3, block=b"\xff\xff\xff"), COMPRESSION_ERROR, id="half a number"),
        pytest.param(request(3, block=b"\xc0"), COMPRESSION_ERROR, id="entry that is not there"),
        pytest.param(request(3, block=b"\x3f\xe2\x1f"), COMPRESSION_ERROR, id="wider table than was offered"),
        pytest.param(request(3, END_STREAM) + frame(PING, 0, 0, bytes(8)), PROTOCOL_ERROR, id="ping amid a block"),
        pytest.param(request(3, 0) + frame(CONTINUATION, 4, 1), PROTOCOL_ERROR, id="block that another stream goes on"),
        pytest.param(frame(CONTINUATION, END_HEADERS, 1, BLOCK), PROTOCOL_ERROR, id="continuation of nothing"),
        pytest.param(frame(RST_STREAM, 0, 0, u32(8)), PROTOCOL_ERROR, id="reset of no stream"),
        pytest.param(frame(RST_STREAM, 0, 5, u32(8)), PROTOCOL_ERROR, id="reset of a stream that was not opened"),
        pytest.param(frame(RST_STREAM, 0, 1, b"abc"), FRAME_SIZE_ERROR, id="short reset"),
        pytest.param(frame(SETTINGS, 0, 1), PROTOCOL_ERROR, id="settings of a stream"),
        pytest.param(frame(SETTINGS, ACK, 0, bytes(6)), FRAME_SIZE_ERROR, id="settings in an acknowledgement"),
        pytest.param(frame(SETTINGS, 0, 0, b"abc"), FRAME_SIZE_ERROR, id="half a setting"),
        pytest.param(setting(2, 2), PROTOCOL_ERROR, id="push neither on nor off"),
        pytest.param(setting(4, 1 << 31), FLOW_CONTROL_ERROR, id="wide first window"),
        pytest.param(setting(5, 100), PROTOCOL_ERROR, id="short frames"),
        pytest.param(frame(PUSH_PROMISE, END_HEADERS, 1, u32(2) + BLOCK), PROTOCOL_ERROR, id="push of a client"),
        pytest.param(frame(PING, 0, 1, bytes(8)), PROTOCOL_ERROR, id="ping of a stream"),
        pytest.param(frame(PING, 0, 0, bytes(7)), FRAME_SIZE_ERROR, id="short ping"),
        pytest.param(frame(PRIORITY, 0, 0, bytes(5)), PROTOCOL_ERROR, id="priority of no stream"),
        pytest.param(frame(PRIORITY, 0, 1, bytes(4)), FRAME_SIZE_ERROR, id="short priority"),
        pytest.param(frame(WINDOW_UPDATE, 0, 0, u32(0)), PROTOCOL_ERROR, id="window that opens by nothing"),
        pytest.param(frame(WINDOW_UPDATE, 0, 0, u32((1 << 31) - 1)), FLOW_CONTROL_ERROR, id="wide window"),
        pytest.param(frame(WINDOW_UPDATE, 0, 0, b"abc"), FRAME_SIZE_ERROR, id="short window"),
        pytest.param(frame(WINDOW_UPDATE, 0, 5, u32(1)), PROTOCOL_ERROR, id="window of a stream that was not opened"),
        pytest.param(request(3, 0) + frame(CONTINUATION, 0, 3) * 4000, ENHANCE_YOUR_CALM, id="block without end"),
        pytest.param(
            request(3, 0) + frame(CONTINUATION, 0, 3, bytes(16_000)) * 3, ENHANCE_YOUR_CALM, id="block of 48 KiB"
        ),
    ],
)
def test_a_broken_rule_of_the_connection_ends_it_with_its_code(http2: Http2, said: bytes, code: int) -> None:
    with pytest.raises(ProtocolError):
        take(http2, said)
    kind, _, stream, payload = frames_of(http2.to_send())[-1]
    assert (kind, stream, int.from_bytes(payload[4:8], "big")) == (GOAWAY, 0, code)


@pytest.mark.parametrize(
    ("said", "stream", "code"),
    [
        pytest.param(frame(DATA, END_STREAM, 1) + frame(DATA, 0, 1, b"x"), 1, STREAM_CLOSED, id="data after the end"),
        pytest.param(frame(DATA, END_STREAM, 1) + request(1), 1, STREAM_CLOSED, id="headers after the end"),
        pytest.param(request(1, END_HEADERS), 1, PROTOCOL_ERROR, id="trailers that end nothing"),
        pytest.param(frame(WINDOW_UPDATE, 0, 1, u32(0)), 1, PROTOCOL_ERROR, id="window that opens by nothing"),
        pytest.param(frame(WINDOW_UPDATE, 0, 1, u32((1 << 31) - 1)), 1, FLOW_CONTROL_ERROR, id="wide window"),
        *(
            pytest.param(request(3, block=encode_block(headers)), 3, PROTOCOL_ERROR, id=name)
            for name, headers in {
                "upper case": [*ASKED, (b"X-Test", b"ok")],
                "unknown pseudo-header": [*ASKED, (b":test", b"ok")],
                "pseudo-header behind others": [ASKED[0], (b"x", b"ok"), *ASKED[1:]],
                "pseudo-header twice": [*ASKED, ASKED[0]],
                "no method": ASKED[1:],
                "no path": [each for each in ASKED if each[0] != b":path"],
                "empty path": [(name, b"" if name == b":path" else value) for name, value in ASKED],
                "connection": [*ASKED, (b"connection", b"keep-alive")],
                "no name": [*ASKED, (b"", b"ok")],
            }.items()
        ),
    ],
)
def test_a_broken_rule_of_a_stream_ends_that_stream_alone(http2: Http2, said: bytes, stream: int, code: int) -> None:
    events = list(http2.received(said))
    assert events in ([StreamEvent(1, is_gone=True)], [])
    assert (RST_STREAM, 0, stream, u32(code)) in frames_of(http2.to_send())
    assert list(http2.received(request(7))) == [StreamEvent(7, METADATA, b"", is_last=True)]


@pytest.mark.parametrize(
    "said", [b"GET / HTTP/1.1\r\n", b"x", PREFACE + frame(PING, 0, 0, bytes(8)), PREFACE + request(1)]
)
def test_a_connection_begins_with_the_preface_and_settings(said: bytes) -> None:
    with pytest.raises(ProtocolError):
        Http2().received(said)


def test_what_may_be_said_is_taken(http2: Http2) -> None:
    said = (
        frame(200, 0, 0, b"an extension"), frame(GOAWAY, 0, 0, bytes(8)), frame(PRIORITY, 0, 9, bytes(5)),
        frame(PING, ACK, 0, bytes(8)), frame(SETTINGS, ACK), setting(99, 1), frame(DATA, PADDED, 1, b"\2abc\0\0"),
        request(3, END_HEADERS | END_STREAM | PADDED | 32, b"\1" + bytes(5) + BLOCK + b"\0"),
        request(5, END_STREAM, BLOCK[:7]), frame(CONTINUATION, 0, 5, BLOCK[7:9]), frame(CONTINUATION, 4, 5, BLOCK[9:]),
        request(1, END_HEADERS | END_STREAM, encode_block([(b"trailer", b"ok")])),
    )  # fmt: skip
    in_pieces = [event for byte in b"".join(said) for event in http2.received(bytes([byte]))]
    assert in_pieces == [
        StreamEvent(1, None, b"abc"), StreamEvent(3, METADATA, is_last=True), StreamEvent(5, METADATA, is_last=True),
        StreamEvent(1, is_last=True),
    ]  # fmt: skip
    assert [kind for kind, _, _, _ in frames_of(http2.to_send())] == [SETTINGS]


def test_streams_beyond_the_limit_are_refused_and_others_go_on(http2: Http2) -> None:
    numbers = range(3, 2 * STREAMS_MAX + 3, 2)
    asked = [event.stream for event in take(http2, b"".join(map(request, numbers))) if event.metadata]
    assert asked == list(numbers)[:-1], "stream 1 is one of them"
    assert frames_of(http2.to_send()) == [(RST_STREAM, 0, numbers[-1], u32(REFUSED_STREAM))]
    http2.put(3, trailers=HEAD)
    assert list(http2.received(request(numbers[-1] + 2)))


def test_a_consumer_of_thousands_of_topics_may_cancel_all_its_polls(http2: Http2) -> None:
    numbers = range(3, 2 * 3000, 2)
    assert len(take(http2, b"".join(map(request, numbers)))) == len(numbers)
    gone = take(http2, b"".join(frame(RST_STREAM, 0, stream, u32(8)) for stream in numbers))
    assert gone == [StreamEvent(stream, is_gone=True) for stream in numbers]


def test_calls_that_are_only_cancelled_come_to_an_end(http2: Http2) -> None:
    """The flood of CVE-2023-44487: each call is begun, and cancelled before it costs its client anything."""
    for stream in range(3, 2 * CANCELLED_MAX + 3, 2):
        http2.received(request(stream))
        http2.received(frame(RST_STREAM, 0, stream, u32(8)))
    http2.received(request(stream + 2))
    with pytest.raises(ProtocolError, match="cancelled"):
        http2.received(frame(RST_STREAM, 0, stream + 2, u32(8)))


def asked(stream: int) -> bytes:
    return request(stream, END_HEADERS) + frame(DATA, END_STREAM, stream, b"x")


STREAMS = range(3, 2 * FRAMES_AT_ONCE_MAX, 2)


@pytest.mark.parametrize(
    "flood",
    [
        frame(PING, 0, 0, bytes(8)) * FRAMES_AT_ONCE_MAX,
        b"".join(request(stream) for stream in STREAMS),
        b"".join(asked(stream) + frame(RST_STREAM, 0, stream, u32(8)) for stream in STREAMS),
        request(3, 0) + frame(CONTINUATION, 0, 3) * FRAMES_AT_ONCE_MAX,
    ],
    ids=["pings", "calls without messages", "cancelled calls", "pieces of headers"],
)
def test_a_client_that_asks_little_is_told_from_others(http2: Http2, flood: bytes) -> None:
    http2.received(flood)
    assert http2.has_more
    assert http2.asks_little


def test_a_turn_takes_so_many_frames_and_leaves_the_others_for_the_next(http2: Http2) -> None:
    """A read of 64 KiB of pings would hold up others for ten milliseconds."""
    http2.received(frame(PING, 0, 0, bytes(8)) * (2 * FRAMES_AT_ONCE_MIN) + request(3))
    for _ in range(2):
        assert http2.has_more
        assert len(frames_of(http2.to_send())) == FRAMES_AT_ONCE_MIN
        events = list(http2.received(b""))
    assert events == [StreamEvent(3, METADATA, b"", is_last=True)]
    assert not http2.has_more


def test_a_turn_takes_more_frames_of_a_client_that_asks_much(http2: Http2) -> None:
    calls = b"".join(asked(stream) for stream in STREAMS)
    counts = [len(list(http2.received(calls)))]
    while http2.has_more:
        assert not http2.asks_little
        counts.append(len(list(http2.received(b""))))
    assert counts == [8, 32, 23]


def test_calls_that_end_well_make_up_for_cancelled_ones(http2: Http2) -> None:
    for stream in range(3, 8 * CANCELLED_MAX, 4):
        http2.received(request(stream) + request(stream + 2))
        http2.received(frame(RST_STREAM, 0, stream, u32(8)))
        http2.put(stream + 2, trailers=HEAD)


def test_a_block_of_few_bytes_that_names_long_headers_again_and_again_is_refused(http2: Http2) -> None:
    """A bomb: 16 KiB of it would unpack to 64 MiB."""
    long = b"\x40\x01a\x7f" + bytes([0x80 | (3900 - 127) & 0x7F, 3900 - 127 >> 7]) + b"x" * 3900
    with pytest.raises(ProtocolError, match="headers of more than"):
        http2.received(request(3, block=BLOCK + long + b"\xbe" * 10_000))


def test_windows_open_again_as_data_comes(http2: Http2) -> None:
    for _ in range(1000):
        http2.received(frame(DATA, 0, 1, bytes(16_000)))
    opened: dict[int, int] = {}
    for kind, _, stream, payload in frames_of(http2.to_send()):
        assert kind == WINDOW_UPDATE
        opened[stream] = opened.get(stream, 0) + int.from_bytes(payload, "big")
    assert opened[1] > 15 << 20
    assert opened[0] > 7 << 20


def test_the_window_of_a_stream_stays_shut_after_its_last_data(http2: Http2) -> None:
    for flags in (*[0] * (STREAM_WINDOW_BYTES // 2 // 16_000), END_STREAM):
        http2.received(frame(DATA, flags, 1, bytes(16_000)))
    assert not frames_of(http2.to_send())


def test_a_request_that_is_answered_before_its_end_need_not_go_on(http2: Http2) -> None:
    http2.put(1, trailers=HEAD)
    assert frames_of(http2.to_send())[1:] == [(RST_STREAM, 0, 1, u32(0))]
    assert not list(http2.received(frame(DATA, 0, 1, b"late")))
    assert frames_of(http2.to_send()) == [(RST_STREAM, 0, 1, u32(STREAM_CLOSED))]


def test_answers_wait_for_the_windows_and_keep_their_order(http2: Http2) -> None:
    http2.received(setting(4, 10))
    http2.received(request(3))
    http2.to_send()
    for stream in (1, 3):
        http2.put(stream, HEAD)
        http2.put(stream, data=b"x" * 15)
        http2.put(stream, data=b"y" * 5)
        http2.put(stream, trailers=HEAD)
    assert http2.queued_bytes == 20
    http2.received(frame(WINDOW_UPDATE, 0, 3, u32(100)))
    got = [(kind, payload) for kind, _, stream, payload in frames_of(http2.to_send()) if stream == 3]
    assert got == [(HEADERS, HEAD), *((DATA, each) for each in (b"x" * 10, b"x" * 5, b"y" * 5)), (HEADERS, HEAD)]
    assert (list(http2.queued), http2.queued_bytes) == ([1], 10)


def test_what_waits_for_a_window_is_not_copied_for_each_frame(http2: Http2) -> None:
    """A long answer would take time that grows with the square of its length."""
    http2.put(1, HEAD)
    http2.put(1, data=bytes(4 << 20))
    tracemalloc.start()
    try:
        http2.received(frame(WINDOW_UPDATE, 0, 0, u32(100)) + frame(WINDOW_UPDATE, 0, 1, u32(100)))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert http2.queued_bytes == (4 << 20) - 65_535 - 100


def test_a_peer_that_makes_its_table_smaller_is_told_that_ours_is_empty(http2: Http2) -> None:
    """Its decoder refuses a block that does not say so (RFC 7541, 4.2)."""
    http2.received(setting(1, 100))
    http2.to_send()
    http2.put(1, HEAD)
    http2.put(1, trailers=HEAD)
    assert [payload for kind, _, _, payload in frames_of(http2.to_send()) if kind == HEADERS] == [b"\x20" + HEAD, HEAD]
