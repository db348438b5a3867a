"""Both decoders read the same headers in the same blocks, or refuse them in the same words."""

import struct
from collections.abc import Callable

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.errors import ProtocolError
from rmqserver import core
from rmqserver.core import header_blocks
from rmqserver.core.header_blocks import encode_block

DECODERS = list({header_blocks.HeaderDecoder, core.HeaderDecoder})
each_decoder = pytest.mark.parametrize("make", DECODERS)
Make = Callable[[], header_blocks.HeaderDecoder]

NAMES = st.sampled_from([b"te", b"x-mq-client-id", b"authorization", b":path", b"grpc-timeout"]) | st.binary(
    max_size=20
)
HEADERS = st.lists(st.tuples(NAMES, st.binary(max_size=300)), max_size=12)
BLOCKS = st.lists(st.tuples(HEADERS, st.booleans(), st.sampled_from([None, 0, 100, 4096])), min_size=1, max_size=8)


@each_decoder
@given(BLOCKS)
def test_what_another_encoder_makes_is_read(
    make: Make, blocks: list[tuple[list[tuple[bytes, bytes]], bool, int | None]]
) -> None:
    """Huffman codes or not, with a table that changes its size."""
    encoder, decoder = hpack.Encoder(), make()
    for headers, is_huffman, size in blocks:
        if size is not None:
            encoder.header_table_size = size
        assert decoder.decode_untrusted(encoder.encode(headers, huffman=is_huffman)) == headers


@given(HEADERS)
def test_ours_is_read_by_another_decoder_and_leaves_its_table_alone(headers: list[tuple[bytes, bytes]]) -> None:
    decoder = hpack.Decoder()
    assert decoder.decode(encode_block(headers), raw=True) == headers
    assert not decoder.header_table.dynamic_entries


@each_decoder
@given(st.binary(max_size=200))
def test_any_bytes_are_headers_or_refused(make: Make, block: bytes) -> None:
    try:
        found = make().decode_untrusted(block)
    except ProtocolError:
        return
    assert make().decode_untrusted(encode_block(found)) == found


ODD_BYTES = st.sampled_from(b"\x20\x3f\xe1\x1f\x40\x41\x7f\x00\x0f\x80\xbe\xbf\xff\x03\x83\x85\xc0abc") | st.integers(
    0, 255
)


@given(st.lists(st.builds(bytes, st.lists(ODD_BYTES, max_size=40)) | st.builds(encode_block, HEADERS), max_size=8))
def test_both_remember_the_same(blocks: list[bytes]) -> None:
    """Each block goes to the same decoder: what the one before it has left in the table counts."""
    found = []
    for make in DECODERS:
        decoder, seen = make(), list[object]()
        found.append(seen)
        for block in blocks:
            try:
                seen.append(decoder.decode_untrusted(block))
            except ProtocolError as error:
                seen.append(str(error))
                break
    assert found[0] == found[-1]


def test_every_symbol_is_read() -> None:
    text = bytes(range(256))
    block = hpack.Encoder().encode([(b"x", text)], huffman=True)
    for make in DECODERS:
        assert make().decode_untrusted(block) == [(b"x", text)]


@each_decoder
@pytest.mark.parametrize(("value_size", "count"), [(0, 128), (1, 124)])
def test_a_full_table_forgets_its_oldest_entries(make: Make, value_size: int, count: int) -> None:
    """Each counts 32 bytes more than it has, and there are 4096."""
    values = [bytes([number])[:value_size] for number in range(200)]
    decoder, rest = make(), 61 + count - 0x7F
    decoder.decode_untrusted(b"".join(b"\x40\0%c%b" % (value_size, value) for value in values))
    newest, oldest = decoder.decode_untrusted(b"\xbe"), decoder.decode_untrusted(b"\xff%c" % rest)
    assert (newest, oldest) == ([(b"", values[-1])], [(b"", values[-count])])
    with pytest.raises(ProtocolError, match="an entry that is not there"):
        decoder.decode_untrusted(b"\xff%c" % (rest + 1))


# --- calls that come whole --------------------------------------------------------------------------------------------


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


CALL = frame(1, 4, 5, encode_block([(b"a", b"b")])) + frame(0, 1, 5, b"body")


@each_decoder
def test_a_whole_call_is_taken(make: Make) -> None:
    assert make().take_call_untrusted(b"xyz" + CALL + b"more", 3, 3) == (5, [(b"a", b"b")], b"body", 3 + len(CALL))


@each_decoder
@pytest.mark.parametrize("size", range(len(CALL)))
def test_a_call_that_is_cut_off_is_left(make: Make, size: int) -> None:
    assert make().take_call_untrusted(CALL[:size], 0, 0) is None


FRAMES = st.builds(
    frame, st.sampled_from([0, 0, 1, 1, 2]), st.sampled_from([0, 1, 4, 5]), st.sampled_from([1, 2, 5, 5, 1 << 31 | 5]),
    st.builds(encode_block, HEADERS) | st.binary(max_size=20) | st.sampled_from([bytes(16_384), bytes(16_385)]),
)  # fmt: skip


@given(st.lists(FRAMES, max_size=3), st.integers(0, 20), st.integers(0, 9), st.integers(0, 5))
def test_both_take_the_same_calls(frames: list[bytes], cut_bytes: int, at: int, last_stream: int) -> None:
    data = b"".join(frames)[cut_bytes:]
    found = []
    for make in DECODERS:
        try:
            found.append(make().take_call_untrusted(data, min(at, len(data)), last_stream))
        except ProtocolError as error:
            found.append(str(error))
    assert found[0] == found[-1]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param("80", id="entry 0"),
        pytest.param("c0", id="entry beyond the table"),
        pytest.param("ff", id="number without its rest"),
        pytest.param("ffffffffff01", id="number without end"),
        pytest.param("823f01", id="size behind a header"),
        pytest.param("3fe21f", id="size above the limit"),
        pytest.param("000161", id="no value"),
        pytest.param("00016105616263", id="short value"),
        pytest.param("00016184ffffffff", id="end of Huffman codes"),
        pytest.param("0001618108", id="padding of zeros"),
        pytest.param("000161821fff", id="padding of a byte"),
    ],
)
@each_decoder
def test_a_block_that_is_none_is_refused(make: Make, block: str) -> None:
    with pytest.raises(ProtocolError):
        make().decode_untrusted(bytes.fromhex(block))
