"""What may be done with a topic's queues (``PermName``, 5.5.0). A perm is the sum of these bits."""

from __future__ import annotations

PERM_PRIORITY = 8
PERM_READ = 4
PERM_WRITE = 2
PERM_INHERIT = 1
"""The topic is a model: topics that a send creates take its settings."""

PERM_MAX = PERM_READ | PERM_WRITE | PERM_INHERIT
"""The largest perm of a topic."""

PERM_LETTERS = {"R": PERM_READ, "W": PERM_WRITE, "X": PERM_INHERIT}
