"""The server's version. A test keeps it equal to the distribution's, which takes 25 ms to look up."""

from __future__ import annotations

VERSION = "0.1.0"
