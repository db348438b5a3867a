"""Answers to sends, rendered from a template: at 100,000 sends a second, building a header object and encoding it would
cost as much as storing the message. Requests with binary headers, which are rare, get theirs the ordinary way."""

from __future__ import annotations

import json
import struct
from typing import Any

from rmqproto.codes import VERSION
from rmqproto.command import HeaderCodec
from rmqproto.headers import SendAnswer
from rmqserver.answer import LANGUAGE, Request, success
from rmqserver.store.results import Appended

STORE_HOSTS_MAX = 64
"""Addresses of ours that are remembered as hex: as many as this machine has, so a handful."""

_HEAD = struct.Struct(">II")


class SentAnswers:
    def __init__(self, region: str, trace_on: str):
        self._region = region
        self._trace_on = trace_on
        ext = f'"MSG_REGION":{json.dumps(region)},"TRACE_ON":"{trace_on}","msgId":"'.replace("%", "%%")
        self._template = (
            f'{{"code":0,"extFields":{{{ext}%s%016X","queueId":"%d","queueOffset":"%d","transactionId":"%s"}},'
            f'"flag":1,"language":"{LANGUAGE}","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'
        )
        self._hex_by_host: dict[bytes, str] = {}

    def one(
        self, request: Request[Any], store_host: bytes, appended: Appended, queue_id: int, unique_key: str
    ) -> bytes:
        """``unique_key`` is alphanumeric, or the request is not JSON."""
        if request.codec != HeaderCodec.JSON:
            return self.many(request, store_host, appended, [appended.log_offset], queue_id, unique_key)
        host = self._hex_by_host.get(store_host) or self._hex(store_host)
        header = (
            self._template
            % (host, appended.log_offset, queue_id, appended.queue_offset, unique_key, request.opaque)
        ).encode()
        return _HEAD.pack(4 + len(header), len(header)) + header

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
        host = self._hex(store_host)
        answer = SendAnswer(
            message_id=",".join([f"{host}{log_offset:016X}" for log_offset in log_offsets]),
            queue_id=queue_id,
            queue_offset=first.queue_offset,
            transaction_id=unique_key,
            msg_region=self._region,
            trace_on=self._trace_on,
        )
        return success(request, answer)

    def _hex(self, store_host: bytes) -> str:
        if len(self._hex_by_host) >= STORE_HOSTS_MAX:
            self._hex_by_host.clear()
        found = self._hex_by_host[store_host] = store_host.hex().upper()
        return found
