"""The native core calls Python, and that may take away what the core is just using: nothing is read that is freed."""

import hashlib

import pytest

from rmqserver import core
from rmqserver.core import pack_received
from rmqserver.doors.grpc.stored import MD5, PLAIN_ROLES
from tests.rmqserver.core.test_no_memory import SENDS, Sending
from tests.rmqserver.core.test_round_buffer import NOW_MS
from tests.rmqserver.doors.grpc.test_plain_receives import USUAL, stored

pytestmark = pytest.mark.skipif(not core.IS_NATIVE, reason="the native core is not built")


def handles_of(text: bytes) -> list[bytes]:
    """Handles that nobody else holds."""
    return [text + b"%d" % number for number in range(3)]


@pytest.mark.parametrize("left", [0, 1])
def test_handles_that_the_digest_takes_away(left: int) -> None:
    records, handles, others = stored(USUAL) * 3, handles_of(b"1 2 "), []

    def md5(body: bytes) -> object:
        del handles[left:]
        others.extend(handles_of(b"9 9 "))  # where the handles were, if they are freed
        return hashlib.md5(body, usedforsecurity=False)

    expected = pack_received(records, b"T", handles_of(b"1 2 "), PLAIN_ROLES, None, 16, MD5)
    assert expected is not None
    assert pack_received(records, b"T", handles, PLAIN_ROLES, None, 16, md5) == expected


def test_puts_are_not_taken_amid_a_send() -> None:
    refused: list[str] = []

    def clock_ms() -> int:
        for take in (sending.sends.take_written, sending.sends.take_safe):
            try:
                take()
            except RuntimeError as error:
                refused.append(str(error))
        return NOW_MS

    sending = Sending(clock_ms)
    for _ in range(2):
        sending.cutter.feed_untrusted(SENDS["json"][0])
        sending.round.store_timestamp_ms = 0  # so that it asks for the time again
    assert refused == ["this PlainSends is taking a send"] * 4
    puts = sending.sends.take_safe()
    assert puts is not None
    assert [put[0] for put in puts.all()] == [sending.owner] * 2
