from __future__ import annotations

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.errors import ProtocolError
from rmqserver.core.header_blocks import HeaderDecoder, encode_block

NAMES = st.sampled_from([b"te", b"x-mq-client-id", b"authorization", b":path", b"grpc-timeout"]) | st.binary(
    max_size=20
)
HEADERS = st.lists(st.tuples(NAMES, st.binary(max_size=300)), max_size=12)
BLOCKS = st.lists(st.tuples(HEADERS, st.booleans(), st.sampled_from([None, 0, 100, 4096])), min_size=1, max_size=8)


@given(BLOCKS)
def test_what_another_encoder_makes_is_read(blocks: list[tuple[list[tuple[bytes, bytes]], bool, int | None]]) -> None:
    """Huffman codes or not, with a table that changes its size."""
    encoder, decoder = hpack.Encoder(), HeaderDecoder()
    for headers, is_huffman, size in blocks:
        if size is not None:
            encoder.header_table_size = size
        assert decoder.decode_untrusted(encoder.encode(headers, huffman=is_huffman)) == headers


@given(HEADERS)
def test_ours_is_read_by_another_decoder_and_leaves_its_table_alone(headers: list[tuple[bytes, bytes]]) -> None:
    decoder = hpack.Decoder()
    assert decoder.decode(encode_block(headers), raw=True) == headers
    assert not decoder.header_table.dynamic_entries


@given(st.binary(max_size=200))
def test_any_bytes_are_headers_or_refused(block: bytes) -> None:
    try:
        found = HeaderDecoder().decode_untrusted(block)
    except ProtocolError:
        return
    assert HeaderDecoder().decode_untrusted(encode_block(found)) == found


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
def test_a_block_that_is_none_is_refused(block: str) -> None:
    with pytest.raises(ProtocolError):
        HeaderDecoder().decode_untrusted(bytes.fromhex(block))
