"""What a retry message or a dead letter tells about its failure. No broker stores how the consumer failed."""

from __future__ import annotations

import re
from collections.abc import Mapping

_TELLS_WHY = re.compile(r"error|exception|reason|cause|fail|stack", re.IGNORECASE)
"""Property names in which applications say what went wrong."""


def told_causes(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties in which the application says what went wrong."""
    return {name: value for name, value in properties.items() if _TELLS_WHY.search(name)}
