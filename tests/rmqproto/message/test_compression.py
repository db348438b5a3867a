"""Bodies compressed by zlib, LZ4 and Zstandard. What Java made of them is read in ``test_golden_stores.py``, and Java
reads ours in the interop tests."""

import contextlib
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.errors import ProtocolError, UsageError
from rmqproto.message import compression
from rmqproto.message.compression import beginning_untrusted, check_compression, compressed
from rmqproto.message.sys_flag import COMPRESSIONS
from tests.support.compressions import KINDS


@pytest.mark.parametrize("kind", KINDS)
@given(body=st.binary(max_size=300) | st.integers(0, 200_000).map(bytes), level=st.integers(0, 9))
def test_what_was_compressed_comes_back_and_a_cut_is_seen(kind: str, body: bytes, level: int) -> None:
    check_compression(kind, level)
    packed, bits = compressed(body, kind, level)
    assert bits == COMPRESSIONS[kind]
    assert beginning_untrusted(packed, bits, len(body) + 1) == (body, True)
    assert beginning_untrusted(packed, bits, 7)[0] == body[:7]
    assert not beginning_untrusted(packed[:-1], bits, len(body) + 1)[1]


@pytest.mark.parametrize("kind", KINDS)
@given(noise=st.binary(min_size=1, max_size=60))
def test_damaged_bodies_fail_in_one_way(kind: str, noise: bytes) -> None:
    packed, bits = compressed(b"body" * 99, kind)
    for body in (noise, packed[: len(packed) // 2] + noise):
        with contextlib.suppress(ProtocolError):  # and nothing else
            assert len(beginning_untrusted(body, bits, 1000)[0]) <= 1000


@pytest.mark.parametrize(
    ("kind", "level", "told"), [("snappy", 5, "'snappy' is none of zlib, lz4, zstd"), ("zlib", 10, "level 10")]
)
def test_an_unknown_kind_or_level_is_refused(kind: str, level: int, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        check_compression(kind, level)


@pytest.mark.parametrize("kind", ["lz4", "zstd"])
def test_a_missing_library_is_told(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lz4.frame", "backports", "compression"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=f"no library for compression by {kind}") as refused:
        check_compression(kind, 5)
    with pytest.raises(ProtocolError, match=f"compressed with {kind}, which nothing here reads") as unread:
        beginning_untrusted(b"x", COMPRESSIONS[kind], 10)
    assert refused.value.hint == unread.value.hint == compression.HINT
