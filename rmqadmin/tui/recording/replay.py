"""Replays a recording as a cluster. The clock stands at a step, and servers answer as they last did by then. The
clients of recordings: one records servers' answers, the other replays them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from rmqadmin.tui.dashboard_client import DashboardClient
from rmqadmin.tui.memory.cluster import ClusterMemory
from rmqadmin.tui.recording.recording_file import RecordedAnswer, RecordingReader, RecordingWriter, question_of
from rmqadmin.tui.refresh import Feed
from rmqadmin.tui.sampler import Sampler
from rmqclient.admin.caller import AskedHow
from rmqclient.remoting.requests import request_label
from rmqproto.codes import SUCCESS_ALONE
from rmqproto.errors import ConnectError, RefusedError, RocketMQError, UsageError
from rmqproto.headers.base import Header, to_ext
from rmqproto.headers.request_table import READING_CODES
from rmqproto.wire.command import Command

if TYPE_CHECKING:
    from rmqadmin.core.alerts.alert_rules import AlertRule
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
        # Another caller may have accepted what this one does not, and the other way round.
        answered = found.code if found.refusal is None else found.refusal
        if answered is None:
            raise ConnectError(found.remark or "", address=address)
        if answered not in how.get("accept", SUCCESS_ALONE):
            raise RefusedError(answered, found.remark or "", address=address)
        return Command(code=answered, remark=found.remark, ext=dict(found.ext), body=found.body)


_OWN_PARTS = ("brokers", "groups")
"""The parts whose errors are the pulse's own."""


class ReplaySampler(Sampler):
    """Takes the parts of the pulse when the recording says so, not on a schedule."""

    _error: str | None = None

    @property
    def feeds(self) -> list[Feed]:
        return []

    @property
    def shown_feeds(self) -> list[Feed]:
        return []

    @property
    def error(self) -> str | None:
        return self._error

    def take_again(self, part: str) -> None:
        """Takes a part of the pulse. Blocks for milliseconds only, because no server is asked."""
        take = self._takes.get(part)
        if take is None or part == "tables":  # of tables only the answers are wanted, for screens
            return
        error: str | None = None
        try:
            take(_AtOnce(self._feeds[part])).send(None)
        except StopIteration:
            pass
        except RocketMQError as failure:
            error = str(failure)
        if part in _OWN_PARTS:
            self._error = error


class _AtOnce(Feed):
    """A feed that answers without waiting, so that a coroutine that asks it never pauses."""

    def __init__(self, other: Feed):
        self.client = other.client
        self.problems: list[str] = []

    async def ask(self, source: Any, *args: Any, **kwargs: Any) -> Any:
        return source(self.client, *args, **kwargs)


class Replay:
    """The position in a recording. ``sampler`` and ``memory`` belong to the current step; going back makes new ones.
    Only one thread at a time may move it."""

    def __init__(self, reader: RecordingReader, rules: Sequence[AlertRule] = ()):
        self.reader = reader
        self._rules = rules
        self._answers: dict[bytes, RecordedAnswer] = {}
        self._begin()

    def _begin(self) -> None:
        self.position = -1
        self._now_ms = self.reader.head.began_ms
        self._answers.clear()
        self.memory = ClusterMemory(self.now_ms)
        self.sampler = ReplaySampler(self.make_client, self.memory, self.now_ms, lambda: 2.0, lambda: None, self._rules)

    def now_ms(self) -> int:
        return self._now_ms

    def make_client(self, *, read_only: bool) -> ReplayClient:
        client = ReplayClient("127.0.0.1:1", read_only=read_only)
        client.namesrv_addrs = self.reader.head.namesrv_text.split(";")
        client.current_namesrv = client.namesrv_addrs[0]
        client.answers = self._answers
        return client

    def go_to(self, step: int) -> None:
        """Goes to the end of a step, or of the nearest that exists. Going back reads the recording again from its
        beginning, because what is known at a step may come from the first one. UsageError if a step is damaged."""
        step = max(0, min(step, self.reader.step_count - 1))
        if step < self.position:
            self._begin()
        while self.position < step:
            events = self.reader.events(self.position + 1)
            self.position += 1
            for event in events:
                self._now_ms = max(self._now_ms, event.at_ms)
                if isinstance(event, RecordedAnswer):
                    self._answers[event.question] = event
                else:
                    self.sampler.take_again(event.part)

    def go_for(self, length_ms: int) -> None:
        """Goes forward or back by ``length_ms``, and by at least one step."""
        wanted_ms, begin = self._now_ms + length_ms, self.position
        if length_ms > 0:
            self.go_to(begin + 1)
            while self._now_ms < wanted_ms and self.position < self.reader.step_count - 1:
                self.go_to(self.position + 1)
            return
        self.go_to(0)
        while self.position < begin - 1 and self._now_ms < wanted_ms:
            self.go_to(self.position + 1)

    def text(self) -> str:
        torn = "" if self.reader.torn is None else f", {self.reader.torn}"
        return f"step {self.position + 1:,} of {self.reader.step_count:,}{torn}"
