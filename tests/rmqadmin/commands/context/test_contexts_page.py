"""``docs/contexts.md``: its examples work in their order, and its table is that of the program."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from rmqadmin.core.contexts.settings import KINDS
from tests.rmqadmin.conftest import Rmqadmin
from tests.support.servers import Server

PAGE = (Path(__file__).parents[4] / "docs" / "contexts.md").read_text()
EXAMPLES = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


def test_the_examples_work_in_their_order(
    run: Rmqadmin, server: Server, other: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(EXAMPLES) > 25
    for example in EXAMPLES:
        command, _, remark = example.replace("</dev/null", "").partition("  #")
        for written, meant in (("127.0.0.1:9876", server.namesrv_addr), ("127.0.0.1:9877", other.namesrv_addr)):
            command = command.replace(written, meant)
        expected = re.search(r"exit status (\d+)", remark)
        ran = run(*shlex.split(command)[1:])
        assert ran.status == (int(expected[1]) if expected else 0), f"{example}\n{ran.err}"


def test_the_table_has_every_setting_with_its_flag_and_variables() -> None:
    def quoted(*names: str) -> str:
        return ", ".join(f"`{name}`" for name in names)

    rows = [f"| {quoted(kind.key)} | {quoted(kind.flag)} | {quoted(*kind.variables)} |" for kind in KINDS]
    table = "\n".join(["| setting | flag | environment |", "|---|---|---|", *rows])
    assert table in PAGE, table
