"""The server's version. A test keeps it equal to the distribution's, which is slow to look up."""

from __future__ import annotations

VERSION = "0.1.0"
