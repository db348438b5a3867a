"""The native core with arbitrary bytes: what it takes is compared with the Python way, and the rest is left to that."""

from __future__ import annotations

import json

from rmqserver.auth.signed_fields import SignedFields
from rmqserver.core import CopiedRun, cut_signed, plain_records, simple, take_wanted
from rmqserver.store.fate import INDEXED, QUEUED
from rmqserver.store.log.scan import records_untrusted
from rmqserver.store.queues.consume_queue import UNIT

LOG_OFFSET = 1 << 33
_FATES = bytes([QUEUED | INDEXED]) * 256
_MARKS = (b"DELAY\x01",)
_NAMES = ("AccessKey", "Signature", "a", "b")
_KEYS = tuple(f'"{name}":"'.encode() for name in _NAMES)


def core_records(data: bytes) -> None:
    """A copied log: what is taken of it are the records that recovery finds there."""
    end, last, store_ms, runs, _ = plain_records(data, LOG_OFFSET, _FATES, QUEUED, INDEXED, _MARKS, b"odd")
    found = records_untrusted(data[: end - LOG_OFFSET], LOG_OFFSET, check_crc=True)
    assert sorted((each.log_offset, each.size_bytes) for each in found) == sorted(
        unit[:2] for run in runs for unit in UNIT.iter_unpack(_units(run))
    )
    if found:
        assert (found[-1].log_offset, found[-1].store_timestamp_ms) == (last, store_ms)
        assert found[-1].log_offset + found[-1].size_bytes == end


def _units(run: CopiedRun) -> bytes:
    return run[3]


def core_wanted(data: bytes) -> None:
    """Some units, and then the records to which they lead or do not lead."""
    count = data[0] % 4 if data else 0
    units, records = data[1 : 1 + 20 * count], data[1 + 20 * count :]
    if len(units) < 20 * count:
        return
    values = ((b"a\x01", b"TAGS\x01"), lambda first, second: first is not None)
    for by_values in (None, values):
        in_c: list[bytes] = []
        in_python: list[bytes] = []
        seen = take_wanted(records, units, 0, _has_a, by_values, in_c, 3)
        assert simple.take_wanted(records, units, 0, _has_a, None, in_python, 3) == seen
        assert by_values is not None or in_c == in_python


def _has_a(properties: bytes) -> bool:
    return b"a\x01" in properties


def core_signed(data: bytes) -> None:
    """A header of JSON: what is cut out of it is what decoding it gives."""
    cut = cut_signed(_KEYS, bytes((0, 2, 3, 1)), (b"me", None, b"1", None), 0, data, b"body")
    try:
        is_object = isinstance(json.loads(data)["extFields"], dict)
    except (ValueError, KeyError, TypeError, RecursionError):
        is_object = False  # it is only asked about headers that were decoded
    if cut is not None and is_object:
        access_key, content, signature = SignedFields(_NAMES).read(data)
        assert access_key == "me"
        assert cut[:2] == (content + b"body", signature)
