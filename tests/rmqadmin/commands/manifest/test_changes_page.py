"""``docs/changes.md``: its examples work in their order, with its own file."""

import re
import shlex
from pathlib import Path

import pytest

from tests.rmqadmin.commands.manifest.conftest import Pair
from tests.rmqadmin.conftest import Rmqadmin

pytestmark = pytest.mark.xdist_group("manifests")

PAGE = (Path(__file__).parents[4] / "docs" / "changes.md").read_text()
EXAMPLES = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


def test_the_examples_work_in_their_order(
    pair: Pair, run: Rmqadmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (wanted,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    Path("wanted.yaml").write_text(wanted)
    assert len(EXAMPLES) > 12
    for example in EXAMPLES:
        command, _, remark = example.partition("  #")
        command, _, file = command.partition(" > ")
        expected = re.search(r"exit status (\d+)", remark)
        ran = run(*shlex.split(command)[1:])
        assert ran.status == (int(expected[1]) if expected else 0), f"{example}\n{ran.err}"
        assert ran.out or ran.status == 2, example
        if file:
            Path(file.strip()).write_text(ran.out)
