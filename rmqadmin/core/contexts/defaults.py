"""Defaults used where no setting says otherwise, and what a number in a setting may be."""

from __future__ import annotations

from typing import Annotated

import msgspec

NAMESRV_DEFAULT = "127.0.0.1:9876"
TIMEOUT_DEFAULT_S = 5.0

ASKED_AT_ONCE_DEFAULT, ASKED_AT_ONCE_MAX = 16, 64
"""How many servers a command asks at once: threads that wait for them; each server has one socket."""

SECONDS_MAX = 86_400
"""A day: longer than anybody waits for an answer, or between two ticks."""

Seconds = Annotated[float, msgspec.Meta(gt=0, le=SECONDS_MAX)]
AskedAtOnce = Annotated[int, msgspec.Meta(ge=1, le=ASKED_AT_ONCE_MAX)]
"""What flags, variables and files may say."""
