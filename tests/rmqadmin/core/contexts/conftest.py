"""The test's own directories for contexts and settings."""

import os
from pathlib import Path

import pytest

from rmqadmin.core.contexts.context_store import ContextStore


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ContextStore:
    """No contexts, no settings file, and an environment without settings."""
    for name in [name for name in os.environ if name.startswith("RMQADMIN_")] + ["NAMESRV_ADDR", "NO_COLOR"]:
        monkeypatch.delenv(name, raising=False)
    for kind in ("CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    return ContextStore()
