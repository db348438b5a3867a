"""Requests that are encoded once and filled in many times: frames in which only numbers of fixed width, and the
signature, differ. Filling one in costs half a microsecond; encoding one costs twenty."""

import base64
import hashlib
import hmac
import re
import time

from rmqadmin.core.load.load_plan import LoadPlan
from rmqproto.codes import RequestCode
from rmqproto.headers.base import Header, to_ext
from rmqproto.headers.consuming import PULL_SUBSCRIPTION, PULL_SUSPEND, PullHeader
from rmqproto.headers.sending import SendHeaderV2
from rmqproto.message import properties as props
from rmqproto.message.record import BatchItem, encode_batch
from rmqproto.names import AUTO_CREATE_TOPIC
from rmqproto.wire.command import Command, encode_frame
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.frames import HEAD_SIZE_BYTES, frame
from rmqproto.wire.signing import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, sign

FIRST_NUMBER, LAST_NUMBER = 1_000_000_000, 2_000_000_000
"""Request numbers: ten digits, all within the range of ``opaque``."""

_NUMBER, _STAMP = "1000000000", "3000000001"
_OFFSET = "3000000002"
"""The placeholders in a template for the request's number, its stamp, and a queue offset."""
_HOLES = re.compile(f"({_NUMBER}|{_STAMP})".encode())
_SIGNATURE = "s" * 28

STAMP_MARK = b"rmqadmin bench "
STAMP_SIZE_BYTES = len(STAMP_MARK) + 22 + 1 + 10
"""The length of the beginning of a stamped body: the mark, the run's id, a blank, the stamp."""

HOLD_MS = 1000
"""How long a pull may wait at the end of a queue."""


class Template:
    """A request to fill in. ``fill`` takes the request's number and its stamp, in us since the start."""

    def __init__(self, code: int, header: Header, body: bytes, credentials: Credentials | None):
        ext = to_ext(header)
        self._secret = b""
        if credentials is not None:
            ext[ACCESS_KEY] = credentials.access_key
            if credentials.security_token:
                ext[SECURITY_TOKEN] = credentials.security_token
            content = "".join(ext[name] for name in sorted(ext)).encode() + body
            self._signed, self._signed_holes = _parts(content)
            self._secret = credentials.secret_key.encode()
            ext[SIGNATURE] = _SIGNATURE
        whole = encode_frame(Command(code=code, opaque=int(_NUMBER), ext=ext, body=body))
        self._frame, self._holes = _parts(whole)
        self._plain_count = 0 if any(self._holes) or self._secret else len(self._holes)
        """The number of holes, if all of them take the request's number."""

    def fill(self, number: int, stamp_us: int) -> bytes:
        if self._plain_count:
            return self._frame % ((number,) * self._plain_count)
        pair = number, stamp_us
        filled = self._frame % tuple(pair[hole] for hole in self._holes)
        if not self._secret:
            return filled
        content = self._signed % tuple(pair[hole] for hole in self._signed_holes)
        digest = hmac.new(self._secret, content, hashlib.sha1).digest()
        return filled.replace(_SIGNATURE.encode(), base64.b64encode(digest), 1)


def _parts(data: bytes) -> tuple[bytes, list[int]]:
    """A format for ``%``, and for each of its holes, 0 for the number or 1 for the stamp."""
    holes = [int(hole != _NUMBER.encode()) for hole in _HOLES.findall(data)]
    return _HOLES.sub(b"%010d", data.replace(b"%", b"%%")), holes


def send_template(plan: LoadPlan, queue_id: int) -> Template:
    """A send of one message, or of ``batch_size``; make it anew now and then, because it holds the time."""
    stamp = STAMP_MARK + f"{plan.run_id} {_STAMP}".encode() if plan.is_stamped else b""
    body = stamp.ljust(plan.size_bytes, b"x")
    is_batch = plan.batch_size > 1
    if is_batch:
        own = {props.UNIQUE_KEY: f"{plan.run_id[:-3]}%03X{_NUMBER}", **_properties(plan)}
        items = [
            BatchItem(0, body, props.render({**own, props.UNIQUE_KEY: own[props.UNIQUE_KEY] % number}).encode())
            for number in range(plan.batch_size)
        ]
        body = encode_batch(items)
    one = {props.UNIQUE_KEY: f"{plan.run_id}{_NUMBER}", "WAIT": "true", **_properties(plan)}
    header = SendHeaderV2(
        producer_group=plan.group,
        topic=plan.topic,
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=4,
        queue_id=queue_id,
        born_timestamp=time.time_ns() // 1_000_000,
        properties="" if is_batch else props.render(one),
        batch=is_batch,
    )
    code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
    return Template(code, header, body, plan.credentials)


def _properties(plan: LoadPlan) -> dict[str, str]:
    found = {props.TAGS: plan.tag} if plan.tag else {}
    return {**found, props.KEYS: f"{plan.run_id}-{_NUMBER}"} if plan.has_keys else found


class PullTemplate:
    """Pulls up to ``batch_size`` messages from one queue. Waits at its end, unless the load ``repeats``."""

    def __init__(self, plan: LoadPlan, queue_id: int):
        header = PullHeader(
            consumer_group=plan.group,
            topic=plan.topic,
            queue_id=queue_id,
            queue_offset=int(_OFFSET),
            max_msg_nums=plan.batch_size,
            sys_flag=PULL_SUBSCRIPTION | (0 if plan.repeats else PULL_SUSPEND),
            suspend_timeout_millis=0 if plan.repeats else HOLD_MS,
            subscription="*",
            expression_type="TAG",
        )
        self._credentials = plan.credentials
        self._ext = to_ext(header)
        command = Command(code=RequestCode.PULL_MESSAGE, opaque=int(_NUMBER), ext=self._ext)
        text = encode_frame(command)[HEAD_SIZE_BYTES:].replace(b"%", b"%%")
        holes = re.compile(f"({_NUMBER}|{_OFFSET})".encode())
        self._is_offset = [hole == _OFFSET.encode() for hole in holes.findall(text)]
        self._text = holes.sub(b"%d", text)

    def fill(self, number: int, queue_offset: int) -> bytes:
        """The filled-in pull. Offsets have no leading zeros, because some brokers do not accept them."""
        if self._credentials is None:
            return frame(self._text % tuple(queue_offset if each else number for each in self._is_offset))
        ext = {**self._ext, "queueOffset": str(queue_offset)}
        sign(ext, b"", self._credentials)
        return encode_frame(Command(code=RequestCode.PULL_MESSAGE, opaque=number, ext=ext))
