"""Both cutters find the same frames in the same bytes, whatever is done to them meanwhile."""

import gc
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.errors import OtherProtocolError, ProtocolError
from rmqproto.wire.frames import FRAME_SIZE_MAX_BYTES, frame
from rmqserver import core
from rmqserver.core import simple

CUTTERS = list({simple.FrameCutter, core.FrameCutter})
JSON = b'{"code":11,"opaque":5}'

FRAMES = st.builds(frame, st.binary(max_size=40), st.binary(max_size=40), st.integers(0, 255))
STREAMS = st.lists(FRAMES | st.sampled_from([b"GET / HTTP", b"\x16\x03\x01\x02", b"\0\0\0\1", b"\0"]), max_size=8)


class Owner:
    """Writes down what its cutter finds. ``deeds`` are what it does in the middle of each frame."""

    def __init__(self, make: type[Any], deeds: list[str]):
        self.seen: list[object] = []
        self.deeds = deeds
        self.cutter = make(Owner.take, self, [])

    def take(self, codec: int, peeked: int, header: bytes, body: bytes, by: str = "first") -> None:
        is_peeked = len(header) + len(body) >= 12
        self.seen.append((by, codec, peeked if is_peeked else None, header, body, self.cutter.held_bytes))
        deed = self.deeds.pop(0) if self.deeds else ""
        if deed == "stop":
            self.cutter.is_stopped = True
        elif deed == "go on":
            self.cutter.is_stopped = False
        elif deed == "close":
            self.cutter.close()
        elif deed == "hand":
            self.cutter.hand_to(Owner.take_as_second, [])
        elif deed == "feed":
            self.cutter.feed_untrusted(b"\0\0\0")
        elif deed == "fail":
            raise ValueError(len(self.seen))

    def take_as_second(self, codec: int, peeked: int, header: bytes, body: bytes) -> None:
        self.take(codec, peeked, header, body, by="second")

    def feed(self, data: bytes) -> bool:
        try:
            self.cutter.feed_untrusted(data)
        except (ProtocolError, ValueError) as error:
            self.seen.append((type(error), str(error), getattr(error, "data", None)))
            return False
        self.seen.append((self.cutter.held_bytes, self.cutter.is_stopped))
        return True


@given(
    STREAMS,
    st.lists(st.sampled_from(["", "stop", "go on", "close", "hand", "feed", "fail"]), max_size=8),
    st.lists(st.integers(0, 60), max_size=20),
)
def test_any_stream_in_any_pieces(stream: list[bytes], deeds: list[str], sizes: list[int]) -> None:
    seen = []
    for make in (simple.FrameCutter, core.FrameCutter):
        owner, data = Owner(make, deeds.copy()), b"".join(stream)
        for size in [*sizes, len(data)]:
            if not owner.feed(data[:size]):
                break
            data = data[size:]
        seen.append(owner.seen)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("make", CUTTERS)
def test_the_code_of_a_request_is_peeked(make: type[Any]) -> None:
    owner = Owner(make, [])
    owner.feed(frame(JSON) + frame(b"{}", b"body"))
    assert owner.seen[:2] == [
        ("first", 0, int.from_bytes(b'11,"', "big"), JSON, b"", 0),
        ("first", 0, None, b"{}", b"body", 0),
    ]


@pytest.mark.parametrize("make", CUTTERS)
def test_the_longest_frame_comes_in_small_pieces(make: type[Any]) -> None:
    data = frame(JSON, bytes(FRAME_SIZE_MAX_BYTES - 8 - len(JSON)))
    owner = Owner(make, [])
    for at in range(0, len(data), 65521):
        assert owner.feed(data[at : at + 65521])
    assert [len(seen[4]) for seen in owner.seen if isinstance(seen, tuple) and len(seen) > 4] == [
        len(data) - 8 - len(JSON)
    ]
    assert owner.cutter.held_bytes == 0


@pytest.mark.parametrize("make", CUTTERS)
def test_a_longer_frame_and_other_protocols_are_refused_at_the_head(make: type[Any]) -> None:
    for head in ((FRAME_SIZE_MAX_BYTES - 3).to_bytes(4, "big") + bytes(4), bytes((0, 0, 0, 8, 0, 0, 0, 5))):
        with pytest.raises(ProtocolError, match="frame of"):
            make(Owner.take, None, []).feed_untrusted(head)
    with pytest.raises(OtherProtocolError) as refused:
        make(Owner.take, None, []).feed_untrusted(b"PRI * HTTP/2.0")
    assert (refused.value.protocol, refused.value.data) == ("HTTP/2", b"PRI * HTTP/2.0")


@pytest.mark.parametrize("make", CUTTERS)
def test_an_owner_and_its_cutter_are_collected(make: type[Any]) -> None:
    owner = Owner(make, [])
    gone = weakref.ref(owner)
    del owner
    gc.collect(1)
    assert gone() is None


def test_the_native_one_says_what_is_wrong_with_its_arguments() -> None:
    make: Any = pytest.importorskip("rmqserver.core._core").FrameCutter
    with pytest.raises(TypeError):
        make(Owner.take, None, ())
    with pytest.raises(TypeError, match="keywords"):
        make(on_frame=Owner.take, owner=None, takers=[])
    with pytest.raises(TypeError, match="bytes are wanted, not bytearray"):
        make(Owner.take, None, []).feed_untrusted(bytearray(8))
    with pytest.raises(TypeError, match="a taker of frames is wanted, not str"):
        make(Owner.take, None, ["taker"]).feed_untrusted(frame(JSON))
