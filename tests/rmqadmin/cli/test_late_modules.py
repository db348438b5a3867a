"""Modules that few runs use are loaded when they are used."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from rmqadmin.cli.late_modules import late_modules

NAME = "wave"  # of the standard library, small, and used by nobody


@pytest.fixture(autouse=True)
def not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, NAME, raising=False)


def test_a_module_is_loaded_by_the_first_to_ask_for_an_attribute() -> None:
    with late_modules(NAME):
        import wave
    assert NAME not in sys.modules
    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(lambda number: wave.open, range(100)))
    assert found == {sys.modules[NAME].open}
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = wave.nothing  # type: ignore[attr-defined]


def test_who_uses_it_at_once_gets_it() -> None:
    with late_modules(NAME):
        from wave import Error
    assert sys.modules[NAME].Error is Error


def test_a_loaded_module_stays() -> None:
    with late_modules("subprocess"):
        assert sys.modules["subprocess"] is subprocess
    assert sys.modules["subprocess"] is subprocess


def test_later_imports_get_the_module_itself() -> None:
    with late_modules(NAME):
        import wave as stand_in
    import wave

    assert wave is sys.modules[NAME]
    assert stand_in.open is wave.open
