"""Two checkouts of this project beside each other."""

import shutil
from pathlib import Path

import pytest

from bench.harness.against import CheckoutError, check_checkout, compare, show
from bench.harness.rows import row
from bench.harness.servers import ROOT, ours
from rmqclient.admin import AdminClient

SEND = row("send 64 x 1, 128 B")


def runs(*per_s: float) -> list[dict[str, float]]:
    return [{"messages_per_s": each, "cpu_us": 1e6 / each, "errors": 0} for each in per_s]


@pytest.mark.parametrize(
    ("before", "after", "is_reached"),
    [
        ([100, 100, 100, 100], [99, 101, 99, 101], True),
        ([100, 50, 100, 50], [100, 50, 100, 50], True),  # the machine drifts, and both drift with it
        ([100, 100, 100, 100], [100, 60, 60, 60], True),  # other load in most rounds; the best round is as good
        ([100, 100, 100, 100], [95, 95, 95, 95], False),
    ],
)
def test_a_row_is_slower_if_median_and_best_round_are(
    before: list[float], after: list[float], is_reached: bool
) -> None:
    found = compare(SEND, {"before": runs(*before), "ours": runs(*after)})
    assert found.is_reached is is_reached
    assert found.of_apache is None


def test_the_table_shows_every_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    show([compare(SEND, {"before": runs(100, 100), "ours": runs(90, 110), "apache": runs(50, 50)})])
    (_, line) = capsys.readouterr().out.splitlines()
    rest = line.removeprefix(SEND.name).split()
    assert rest == ["100", "100", "1.000", "0.90-1.10", "1.100", "1.000", "2.00", "ok"]


@pytest.mark.slow
def test_the_other_checkout_runs_its_own_code(tmp_path: Path) -> None:
    """It runs neither this installed checkout's code nor the working directory's."""
    for package in ("rmqproto", "rmqserver"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    check_checkout(tmp_path)
    with (tmp_path / "rmqserver/process/server.py").open("a") as file:
        file.write("\nfrom pathlib import Path\nPath(__file__).with_name('it_was_me').touch()\n")
    with ours(root=tmp_path, name="before") as broker, AdminClient(broker.namesrv_addr) as admin:
        assert broker.name == "before"
        assert (tmp_path / "rmqserver/process/it_was_me").exists()
        assert admin.broker_runtime_info(broker.address)


def test_what_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckoutError, match="not a checkout"):
        check_checkout(tmp_path)
