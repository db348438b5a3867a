"""Clients for recordings: one records servers' answers, the other replays them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Unpack

from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.recording.recording_file import RecordedAnswer, RecordingWriter, question_of
from rmqclient.admin.caller import READING_CODES, AskedHow
from rmqclient.remoting.requests import request_label
from rmqproto.codes import SUCCESS_ALONE
from rmqproto.errors import ConnectError, RefusedError, RocketMQError, UsageError
from rmqproto.headers.base import Header, to_ext
from rmqproto.wire.command import Command

if TYPE_CHECKING:
    from rmqclient.remoting.requests import Fields


def _ext(header: Fields | None) -> dict[str, str]:
    return to_ext(header) if isinstance(header, Header) else dict(header or {})


class _OneByOne(DashboardClient):
    """A recording has questions, each with its answer."""

    def call_all(
        self, address: str, code: int, headers: Sequence[Fields], accept: Collection[int] = SUCCESS_ALONE
    ) -> list[Command]:
        return [self.call(address, code, header, accept=accept) for header in headers]


class RecordingClient(_OneByOne):
    """Records answers. The creator of the client sets ``recording`` and its clock ``recorded_ms``. Only requests that
    read are recorded."""

    recording: RecordingWriter
    recorded_ms: Callable[[], int]

    def call(
        self, address: str, code: int, header: Fields | None = None, body: bytes = b"", **how: Unpack[AskedHow]
    ) -> Command:
        if code not in READING_CODES:
            return super().call(address, code, header, body, **how)
        question = question_of(address, code, _ext(header), body)
        try:
            answer = super().call(address, code, header, body, **how)
        except RocketMQError as error:
            refusal, remark = (error.code, error.remark) if isinstance(error, RefusedError) else (None, str(error))
            if refusal is not None or not self.is_stopped:
                self.recording.answered(RecordedAnswer(self.recorded_ms(), question, None, remark, refusal=refusal))
            raise
        found = RecordedAnswer(self.recorded_ms(), question, answer.code, answer.remark, answer.ext, bytes(answer.body))
        self.recording.answered(found)
        return answer


class ReplayClient(_OneByOne):
    """Replays answers, without any server. The creator of the client sets ``answers``, the latest answer to each
    question."""

    answers: dict[bytes, RecordedAnswer]

    def call(
        self, address: str, code: int, header: Fields | None = None, body: bytes = b"", **how: Unpack[AskedHow]
    ) -> Command:
        """Returns or raises the recorded answer. ConnectError for a question that had not been asked by then."""
        self.wait_s(address, how.get("timeout_s"))
        if code not in READING_CODES:
            raise UsageError(f"a recording is shown, and request {request_label(code)} could change something")
        found = self.answers.get(question_of(address, code, _ext(header), body))
        if found is None:
            raise ConnectError(f"not in the recording: {request_label(code)} of {address}", address=address)
        if found.refusal is not None:
            raise RefusedError(found.refusal, found.remark or "", address=address)
        if found.code is None:
            raise ConnectError(found.remark or "", address=address)
        return Command(code=found.code, remark=found.remark, ext=dict(found.ext), body=found.body)
