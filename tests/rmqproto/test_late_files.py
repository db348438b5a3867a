"""Modules of typed bodies and headers, which are loaded on first use."""

import subprocess
import sys
from pathlib import Path

import pytest

from rmqproto import bodies
from rmqproto.late_files import late_files


def test_a_file_is_loaded_when_it_is_named() -> None:
    script = (
        "import sys\n"
        "from rmqproto import headers\n"
        "assert 'rmqproto.headers.tables' not in sys.modules\n"
        "headers.tables.TopicHeader\n"
        "assert vars(headers)['tables'] is sys.modules['rmqproto.headers.tables']\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_what_is_no_file_is_no_attribute() -> None:
    assert not hasattr(bodies, "tables")
    with pytest.raises(ImportError, match="nothing"):
        exec("from rmqproto.bodies import nothing")


def test_what_a_file_misses_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken installation must not look like a misspelt name."""
    (tmp_path / "half").mkdir()
    (tmp_path / "half/__init__.py").write_text("")
    (tmp_path / "half/there.py").write_text("import not_installed")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_installed"):
        late_files("half")("there")
