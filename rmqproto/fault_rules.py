"""Fault rules as text: ``SEND_MESSAGE:delay=200ms:share=0.1``. A rule names the request, the fault, and the share or
count of requests that it hits."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rmqproto.codes import SEND_CODES, RequestCode, ResponseCode
from rmqproto.errors import UsageError
from rmqproto.java.java_numbers import decimal_number, whole_number

DELAY_MAX_MS = 3_600_000

EVERY = "*"

_KINDS = {
    "SEND_MESSAGE": SEND_CODES,
    "PULL_MESSAGE": (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE),
    "ACK_MESSAGE": (RequestCode.ACK_MESSAGE, RequestCode.BATCH_ACK_MESSAGE),
}
"""Names that stand for several codes. Clients choose among them by version and mode, and a rule for sends should match
all of them. A number stands for itself."""

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000}


@dataclass(frozen=True, slots=True)
class FaultRule:
    """Empty ``codes`` mean every request. The request first waits ``delay_ms``. Then it is answered with ``error``,
    lost (``drop``), lost with its connection (``disconnect``), or done and not answered (``lose_answer``). Without any
    of these it is done as usual.

    The rule hits ``share`` of the requests, only those of ``topic`` and ``group`` if given, and at most ``count``
    times.
    """

    text: str
    codes: frozenset[int] = frozenset()
    delay_ms: int = 0
    error: int | None = None
    remark: str = "a fault that was asked for"
    drop: bool = False
    disconnect: bool = False
    lose_answer: bool = False
    share: float = 1.0
    count: int | None = None
    topic: str | None = None
    group: str | None = None


def parse_rule(text: str) -> FaultRule:
    """A rule from its text. UsageError with an example if it is not valid."""
    name, *parts = text.strip().split(":")
    values: dict[str, object] = {}
    for part in parts:
        key, has_value, value = part.partition("=")
        parse = _PARSERS.get(key.strip())
        if parse is None or bool(has_value) == (key.strip() in _FLAGS) or key.strip() in values:
            raise _bad(text, f"{part!r} is not known, lacks its value or is there twice")
        try:
            values[_FLAGS.get(key.strip(), key.strip())] = parse(value.strip())
        except ValueError as error:
            raise _bad(text, f"{part!r}: {error}") from None
    if "delay" in values:
        values["delay_ms"] = values.pop("delay")
    endings = [key for key in ("error", "drop", "disconnect", "lose_answer") if key in values]
    if len(endings) > 1 or not (endings or "delay_ms" in values):
        raise _bad(text, "one of error, drop, disconnect, lose-answer is needed, or a delay")
    return FaultRule(text.strip(), _codes(text, name.strip()), **values)  # type: ignore[arg-type]


def _codes(text: str, name: str) -> frozenset[int]:
    if name == EVERY:
        return frozenset()
    if name in _KINDS:
        return frozenset(map(int, _KINDS[name]))
    if re.fullmatch(r"[0-9]{1,9}", name):
        return frozenset({int(name)})
    if name in RequestCode.__members__:
        return frozenset({int(RequestCode[name])})
    raise _bad(text, f"{name!r} is not a request: its name or code is needed, or * for all")


def _parse_delay_ms(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(ms|s|m)", text)
    delay_ms = round(float(found[1]) * _UNITS_MS[found[2]]) if found else 0
    if not 0 < delay_ms <= DELAY_MAX_MS:
        raise ValueError("a time up to one hour is needed, such as 200ms, 1.5s or 1m")
    return delay_ms


def _parse_error(text: str) -> int:
    number = whole_number(text)
    code = number if number is not None else ResponseCode.__members__.get(text)
    if code is None or not 0 < code < 10_000:
        raise ValueError("a response code is needed, such as SYSTEM_BUSY or 2")
    return int(code)


def _parse_share(text: str) -> float:
    share = decimal_number(text)
    if share is None or not 0 < share <= 1:
        raise ValueError("a number above 0 and up to 1 is needed")
    return share


def _parse_count(text: str) -> int:
    count = whole_number(text)
    if not count:
        raise ValueError("a whole number from 1 on is needed")
    return count


def _parse_text(text: str) -> str:
    if not text:
        raise ValueError("it is empty")
    return text


def _parse_flag(text: str) -> bool:
    return True


_FLAGS = {"drop": "drop", "disconnect": "disconnect", "lose-answer": "lose_answer"}
"""Words without a value, and the attributes that they set."""

_PARSERS = {
    "delay": _parse_delay_ms,
    "error": _parse_error,
    "remark": _parse_text,
    "share": _parse_share,
    "count": _parse_count,
    "topic": _parse_text,
    "group": _parse_text,
    **dict.fromkeys(_FLAGS, _parse_flag),
}


def _bad(text: str, problem: str) -> UsageError:
    return UsageError(
        f"fault {text!r}: {problem}",
        hint="for example SEND_MESSAGE:error=SYSTEM_BUSY:count=2, or PULL_MESSAGE:delay=200ms",
    )
