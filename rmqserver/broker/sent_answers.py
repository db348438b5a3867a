"""Answers to sends, rendered from a template: at 100,000 sends a second, building a header object and encoding it would
cost as much as storing the message. Requests with binary headers, which are rare, get theirs the ordinary way."""

from __future__ import annotations

import json
import struct
from typing import Any

from rmqproto.codes import VERSION
from rmqproto.headers import SendAnswer
from rmqserver.answer import LANGUAGE, Request, success
from rmqserver.store.results import Appended

STORE_HOSTS_MAX = 64
"""Addresses of ours that are remembered as hex: as many as this machine has, so a handful."""

_HEAD = struct.Struct(">II")
_HEADS = [_HEAD.pack(4 + size, size) for size in range(512)]
"""Frame heads by header size, for all but odd answers: a look into a list costs half of packing."""


class SentAnswers:
    def __init__(self, region: str, trace_on: str):
        self._region = region
        self._trace_on = trace_on
        self._templates: dict[bytes, bytes] = {}

    def one(
        self, request: Request[Any], store_host: bytes, appended: Appended, queue_id: int, unique_key: bytes
    ) -> bytes:
        """``unique_key`` must be alphanumeric: it goes between quotes as it is."""
        if request.codec:
            return self.many(request, store_host, appended, [appended.log_offset], queue_id, unique_key.decode())
        template = self._templates.get(store_host) or self._template(store_host)
        header = template % (appended.log_offset, queue_id, appended.queue_offset, unique_key, request.opaque)
        size = len(header)
        return (_HEADS[size] if size < 512 else _HEAD.pack(4 + size, size)) + header

    def many(
        self,
        request: Request[Any],
        store_host: bytes,
        first: Appended,
        log_offsets: list[int],
        queue_id: int,
        unique_key: str | None,
    ) -> bytes:
        """For a batch, and for whatever does not fit the template."""
        answer = SendAnswer(
            message_id=_offset_ids(store_host, log_offsets),
            queue_id=queue_id,
            queue_offset=first.queue_offset,
            transaction_id=unique_key,
            msg_region=self._region,
            trace_on=self._trace_on,
        )
        return success(request, answer)

    def _template(self, store_host: bytes) -> bytes:
        if len(self._templates) >= STORE_HOSTS_MAX:
            self._templates.clear()
        fixed = f'{{"MSG_REGION":{json.dumps(self._region)},"TRACE_ON":"{self._trace_on}","msgId":"'.replace("%", "%%")
        template = (
            f'{{"code":0,"extFields":{fixed}{store_host.hex().upper()}%016X","queueId":"%d","queueOffset":"%d",'
            f'"transactionId":"%b"}},"flag":1,"language":"{LANGUAGE}","opaque":%d,"serializeTypeCurrentRPC":"JSON",'
            f'"version":{VERSION}}}'
        )
        found = self._templates[store_host] = template.encode()
        return found


def _offset_ids(store_host: bytes, log_offsets: list[int]) -> str:
    """Joined by commas. A batch has many: to write all numbers as hex at once costs a quarter."""
    host = store_host.hex().upper()
    numbers = struct.pack(f">{len(log_offsets)}Q", *log_offsets).hex(",", 8).upper()
    return host + numbers.replace(",", f",{host}")
