"""Defaults used where no setting says otherwise, what a number in a setting may be, and how addresses compare."""

from typing import Annotated

import msgspec

from rmqproto.hosts import NAMESRV_PORT, with_port

NAMESRV_DEFAULT = "127.0.0.1:9876"
TIMEOUT_DEFAULT_S = 5.0

ASKED_AT_ONCE_DEFAULT, ASKED_AT_ONCE_MAX = 16, 64
"""How many servers a command asks at once: threads that wait for them; each server has one socket."""

SECONDS_MAX = 86_400
"""A day: longer than anybody waits for an answer, or between two ticks."""

Seconds = Annotated[float, msgspec.Meta(gt=0, le=SECONDS_MAX)]
AskedAtOnce = Annotated[int, msgspec.Meta(ge=1, le=ASKED_AT_ONCE_MAX)]
"""What flags, variables and files may say."""


def addresses_of(namesrv_addr: str) -> list[str]:
    """The addresses in ``host[:port][;host[:port]…]``, in a form that can be compared."""
    parts = (part.strip().lower().removeprefix("http://") for part in namesrv_addr.split(";"))
    return [with_port(part, NAMESRV_PORT) for part in parts if part]
