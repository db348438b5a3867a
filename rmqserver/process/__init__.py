"""One server process: its services, how clients come in, its ready line and its clean end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NoReturn

from rmqproto.errors import RocketMQError

Fail = Callable[[RocketMQError], Awaitable[NoReturn]]
"""Ends the server because of the error, and does not return. Raised in a task, the error would end up in an exception
group."""
