"""Admin clients for many questions: a server that did not answer one in time is not asked another, because each of a
hundred questions would wait for it anew. One kind also has a deadline for all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from rmqclient.admin import AdminClient
from rmqproto.codes import RequestCode
from rmqproto.errors import RequestTimeoutError
from rmqproto.headers.request_table import READING_CODES

T = TypeVar("T")

_ASKS_A_CLIENT = frozenset({RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS})
"""If one of these gets no answer in time, the silent one is a client, not its broker."""
_QUESTIONS = READING_CODES - _ASKS_A_CLIENT


class OnceClient(AdminClient):
    """Waits once for each server that does not answer questions; changes are always sent."""

    _silences: Mapping[str, str] = {}
    """Servers that have not answered in time, by address, with the error."""

    def begin_anew(self) -> None:
        """From now on, every server is asked again."""
        self._silences = {}

    def ask_server(self, address: str, code: int, ask: Callable[[float], T], timeout_s: float | None = None) -> T:
        silence = self._silences.get(address)
        if silence is not None and code in READING_CODES:
            raise RequestTimeoutError(silence)
        try:
            return super().ask_server(address, code, ask, timeout_s)
        except RequestTimeoutError as error:
            if code in _QUESTIONS:
                self._silences = {**self._silences, address: str(error)}
            raise


class DeadlineClient(OnceClient):
    """``begin`` sets the deadline; before that, there is none."""

    deadline_s = float("inf")
    """The ``time.monotonic()`` from which no request is made and pending ones time out."""

    answer_wait_max_s = float("inf")
    """The longest wait for one answer, if the caller wants a shorter one than its own time-out."""

    def begin(self, wait_s: float) -> None:
        """Begins a new round of questions, which may take ``wait_s``."""
        self.deadline_s = time.monotonic() + wait_s
        self.begin_anew()

    def wait_s(self, address: str, timeout_s: float | None) -> float:
        left_s = self.deadline_s - time.monotonic()
        if left_s <= 0:
            raise RequestTimeoutError(f"{address} was not asked: the time for all questions is up")
        return min(super().wait_s(address, timeout_s), left_s, self.answer_wait_max_s)
