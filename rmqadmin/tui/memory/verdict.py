"""Whether all is well, in one line."""

from __future__ import annotations

import msgspec

from rmqadmin.core.tables.marks import Mark


class Verdict(msgspec.Struct, frozen=True):
    """``mark`` is None while that is not known."""

    text: str
    mark: Mark | None
