"""The permissions of a topic's queues (``PermName``, 5.5.0). A perm is the sum of these bits."""

from __future__ import annotations

PERM_PRIORITY = 8
PERM_READ = 4
PERM_WRITE = 2
PERM_INHERIT = 1
"""The topic is a template: topics that a send creates take its settings."""

PERM_READ_WRITE = PERM_READ | PERM_WRITE

PERM_MAX = PERM_READ_WRITE | PERM_INHERIT
"""The largest perm of a topic."""

PERM_LETTERS = {"R": PERM_READ, "W": PERM_WRITE, "X": PERM_INHERIT}


def perm_text(perm: int) -> str:
    """``RW-`` for 6 (``PermName.perm2String``)."""
    return "".join([letter if perm & bit else "-" for letter, bit in PERM_LETTERS.items()])
