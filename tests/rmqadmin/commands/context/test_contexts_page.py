"""``docs/contexts.md``: its examples work in their order, and its table matches the program."""

from pathlib import Path

import pytest

from rmqadmin.core.contexts.settings import KINDS
from tests.rmqadmin.conftest import Rmqadmin
from tests.rmqadmin.page_lines import run_lines
from tests.support.servers import Server

PAGE = (Path(__file__).parents[4] / "docs" / "contexts.md").read_text()


def test_the_examples_work_in_their_order(
    run: Rmqadmin, server: Server, other: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    meant = {"127.0.0.1:9876": server.namesrv_addr, "127.0.0.1:9877": other.namesrv_addr}
    assert len(run_lines(run, "docs/contexts.md", meant, monkeypatch)) > 25


def test_the_table_has_every_setting_with_its_flag_and_variables() -> None:
    def quoted(*names: str) -> str:
        return ", ".join(f"`{name}`" for name in names if name)

    rows = [f"| {quoted(kind.key)} | {quoted(kind.flag)} | {quoted(*kind.variables)} |" for kind in KINDS]
    table = "\n".join(["| setting | flag | environment |", "|---|---|---|", *rows])
    assert table in PAGE, table
