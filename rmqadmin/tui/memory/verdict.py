"""Whether all is well, in a line."""

from __future__ import annotations

import msgspec

from rmqadmin.core.tables.marks import Mark


class Verdict(msgspec.Struct, frozen=True):
    """``mark`` None: that is not known yet."""

    text: str
    mark: Mark | None
