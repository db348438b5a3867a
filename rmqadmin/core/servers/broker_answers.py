"""One question to several brokers: what each of them answered, or why it did not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from rmqadmin.core import targets
from rmqproto.bodies.routes import BrokerData
from rmqproto.errors import RocketMQError
from rmqproto.wording import counted

T = TypeVar("T")


class BrokerAnswer(msgspec.Struct, Generic[T], frozen=True):
    """``body`` is None where ``error`` says why. ``name`` is what mqadmin calls the broker: its name, or its address
    where the command was given addresses."""

    name: str
    body: T | None
    error: RocketMQError | None = None

    @property
    def error_text(self) -> str | None:
        return None if self.error is None else str(self.error)


def ask_brokers(brokers: Iterable[BrokerData], ask: Callable[[str], T]) -> list[BrokerAnswer[T]]:
    """Asks one replica of each, the master where it is up. Raises the first error if all of them fail."""
    return ask_addrs({addr: broker.broker_name for broker in brokers if (addr := broker.selected_addr())}, ask)


def ask_addrs(names: dict[str, str], ask: Callable[[str], T]) -> list[BrokerAnswer[T]]:
    """As ``ask_brokers``, by address; ``names`` are the brokers' names by their addresses."""

    def ask_one(addr: str) -> BrokerAnswer[T]:
        try:
            return BrokerAnswer(names[addr], ask(addr))
        except RocketMQError as error:
            return BrokerAnswer(names[addr], None, error)

    found = targets.ask_each(ask_one, list(names))
    errors = [answer.error for answer in found if answer.error is not None]
    if errors and len(errors) == len(found):
        raise errors[0]
    return found


def problem_of(answers: Sequence[BrokerAnswer[Any]]) -> str | None:
    """For ``Result.problem``."""
    failed = [answer for answer in answers if answer.error is not None]
    return f"{len(failed)} of {counted(len(answers), 'broker')} did not answer: {failed[0].error}" if failed else None


def mqadmin_error(answer: BrokerAnswer[Any]) -> str:
    """mqadmin's line about a broker that refuses, which leaves the reason out."""
    return f"[{answer.name}] error.\n"
