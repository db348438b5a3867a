"""Numbers as wide as Java's, for fields that come from outside: a number that no Apache broker can hold must not get
into a table or a file of ours, which one has to read back."""

from __future__ import annotations

from typing import Annotated

import msgspec

Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
