"""Questions to several servers at once. Of several brokers: the answer of each, or why it did not answer. The answers
of others are shown even if a broker hangs or is dead; it is named at the end, and the exit status is that for partial
success."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from rmqadmin.core import targets
from rmqadmin.core.contexts.context import ASKED_AT_ONCE_DEFAULT
from rmqadmin.core.results import R, ResultOf
from rmqproto.bodies.routes import BrokerData
from rmqproto.errors import ConnectError, RequestTimeoutError, RocketMQError
from rmqproto.wording import counted

A = TypeVar("A")
T = TypeVar("T")

ERRORS_TOLD_MAX = 3


_asked_at_once: int | None = None
"""What the user said; None for the default."""

_share = threading.local()
"""In a thread of ``ask_each``: ``count``, how many the thread may in turn ask at once, if the user said how many;
``stopped``, set when the user stopped the command."""


@contextmanager
def asking_at_once(count: int | None) -> Iterator[None]:
    """Limits how many servers this process asks at once; None for the default."""
    global _asked_at_once
    before, _asked_at_once = _asked_at_once, count
    try:
        yield
    finally:
        _asked_at_once = before


def ask_each(
    ask: Callable[[A], T], of: Sequence[A], told: Callable[[int, int], None] | None = None
) -> list[T]:  # fmt: skip
    """Calls ``ask`` for all items at the same time. Results are in order. Raises the first error after all have
    answered. ``told`` takes how many have answered, and the total. After Ctrl-C no further question is asked, at no
    level.

    If the user said how many may be asked at once, questions inside ``ask`` share that number. The default is for each
    level: else one broker that is silent would hold up the questions to all others."""
    if len(of) < 2:
        return [ask(one) for one in of]
    from concurrent.futures import CancelledError, ThreadPoolExecutor  # 6 ms

    said: int | None = getattr(_share, "count", _asked_at_once)
    threads = min(len(of), said or ASKED_AT_ONCE_DEFAULT)
    stopped: threading.Event = getattr(_share, "stopped", None) or threading.Event()

    def begin() -> None:
        _share.stopped = stopped
        if said is not None:
            _share.count = said // threads

    def ask_unless_stopped(one: A) -> T:
        if stopped.is_set():
            raise CancelledError
        return ask(one)

    pool = ThreadPoolExecutor(max_workers=threads, initializer=begin)
    answers = []
    try:
        for future in [pool.submit(ask_unless_stopped, one) for one in of]:
            answers.append(future.result())
            if told is not None:
                told(len(answers), len(of))
    except KeyboardInterrupt:
        stopped.set()
        raise
    finally:  # after Ctrl-C, whoever closes the connections ends the questions that are under way
        pool.shutdown(wait=not stopped.is_set())
    return answers


def ask_brokers(brokers: Iterable[BrokerData], ask: Callable[[str], T]) -> dict[str, T | RocketMQError]:
    """Like ``ask_addrs``, but asks one replica of each broker, the master if it is up; by the brokers' names."""
    names = {addr: broker.broker_name for addr, broker in targets.by_selected_addr(brokers).items()}
    return {names[addr]: answer for addr, answer in ask_addrs(names, ask).items()}


def ask_addrs(addrs: Iterable[str], ask: Callable[[str], T]) -> dict[str, T | RocketMQError]:
    """What each broker answers, by address, or why not; all are asked at once. The first error if none answers."""

    def ask_one(addr: str) -> T | RocketMQError:
        try:
            return ask(addr)
        except RocketMQError as error:
            return error

    asked = list(addrs)
    found = ask_each(ask_one, asked)
    errors = [answer for answer in found if isinstance(answer, RocketMQError)]
    if errors and len(errors) == len(found):
        raise errors[0]
    return dict(zip(asked, found, strict=True))


def problem_of(errors: Sequence[RocketMQError | None]) -> str | None:
    """A problem for ``Result.problem``; ``errors`` has None for each broker that answered. Only brokers that were
    silent did not answer: a refusal is an answer. The error of an only broker needs no count."""
    failed = [error for error in errors if error is not None]
    if not failed:
        return None
    more = "; …" if len(failed) > ERRORS_TOLD_MAX else ""
    told = "; ".join(map(str, failed[:ERRORS_TOLD_MAX])) + more
    if len(errors) == 1:
        return told
    silent = " did not answer" if all(map(is_silence, failed)) else ""
    return f"{len(failed)} of {counted(len(errors), 'broker')}{silent}: {told}"


def is_silence(error: RocketMQError) -> bool:
    """Whether the server said nothing at all."""
    return isinstance(error, ConnectError | RequestTimeoutError)


class Answers:
    """The brokers' answers to all questions of one command, from any thread. A broker that was silent once is not asked
    again, because each further question would wait for it anew."""

    def __init__(self, whole: Answers | None = None) -> None:
        """``whole``: the answers of the command, if these are only about one group or topic. It records every error."""
        self._whole = whole
        self._asked: dict[str, RocketMQError | None] = {}
        """By address: the broker's first error, or None."""

    def ask(self, addr: str, question: Callable[[str], T]) -> T:
        """The answer of one broker. An error is remembered and raised."""
        earlier = self._asked.get(addr)
        if earlier is not None and is_silence(earlier):
            raise earlier
        try:
            answer = question(addr) if self._whole is None else self._whole.ask(addr, question)
        except RocketMQError as error:
            self._asked[addr] = earlier or error
            raise
        self._asked.setdefault(addr, None)
        return answer

    def ask_or_pass(self, addr: str, question: Callable[[str], T]) -> T | None:
        """Like ``ask``, but None instead of an error while another broker has answered so far."""
        try:
            return self.ask(addr, question)
        except RocketMQError:
            if None not in self._asked.values():
                raise
            return None

    def of(self, question: Callable[[str], T], addrs: Iterable[str]) -> dict[str, T]:
        """The answers of those that answer, by address, in order, asked at once. The first error if none does."""
        found = ask_addrs(addrs, lambda addr: self.ask(addr, question))
        return {addr: answer for addr, answer in found.items() if not isinstance(answer, RocketMQError)}

    @property
    def errors(self) -> dict[str, RocketMQError]:
        """The errors of brokers that did not answer, by address."""
        return {addr: error for addr, error in self._asked.items() if error is not None}

    def problem(self) -> str | None:
        """The message at the end, with status 1, if part of the answer is missing."""
        return problem_of(list(self._asked.values()))


def answers_of(question: Callable[[str], T], addrs: Iterable[str], answers: Answers | None) -> dict[str, T]:
    """The brokers' answers by address, in order; all are asked at once. Without ``answers`` all must answer: raises the
    first error. With it, like ``Answers.of``."""
    if answers is not None:
        return answers.of(question, addrs)
    asked = list(addrs)
    return dict(zip(asked, ask_each(question, asked), strict=True))


class BrokerRows(ResultOf[R], frozen=True):
    """One row a broker, in mqadmin's text one line. A broker that did not answer has a row with its name and its
    error, so the other fields need defaults."""

    found: dict[str, Any]
    """By mqadmin's name for the broker, its name or address, its answer or its error."""

    def row(self, name: str, body: Any) -> R:
        raise NotImplementedError

    def line(self, name: str, body: Any) -> str:
        """mqadmin's line, or lines."""
        raise NotImplementedError

    def rows(self) -> Sequence[R]:
        name_field = self.row_type.__struct_fields__[0]
        return [
            cast(R, self.row_type(**{name_field: name, "error": str(answer)}))
            if isinstance(answer, RocketMQError)
            else self.row(name, answer)
            for name, answer in self.found.items()
        ]

    def bodies(self) -> dict[str, Any]:
        """The answers of the brokers that answered."""
        return {name: answer for name, answer in self.found.items() if not isinstance(answer, RocketMQError)}

    def problem(self) -> str | None:
        return problem_of([answer if isinstance(answer, RocketMQError) else None for answer in self.found.values()])

    def mqadmin_lines(self) -> str:
        """mqadmin's line about a broker that refuses omits the reason."""
        bodies = self.bodies()
        return "".join(self.line(name, bodies[name]) if name in bodies else f"[{name}] error.\n" for name in self.found)
