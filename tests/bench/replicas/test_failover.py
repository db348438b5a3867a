"""What the table says about sets that lost their masters."""

import pytest

from bench.replicas import failover
from bench.replicas.failover import Times, figures, is_there


def test_of_a_few_rounds_the_longest_is_shown_for_the_p99() -> None:
    ours = Times({("kill -9", "java sends"): [100.0, 300.0, 2000.0]}, lost=0)
    apache = Times({("kill -9", "java sends"): [200.0, 400.0, 29_000.0]}, lost=0)
    p50, longest, missing = figures({"ours": ours, "apache": apache})
    assert (p50.name, p50.ours, p50.beside) == ("kill -9, java sends nothing, p50 of 3", 300, 400)
    assert (longest.name, longest.ours, longest.beside) == ("kill -9, java sends nothing, longest of 3", 2000, 29_000)
    assert (p50.is_reached, longest.is_reached) == (True, False)
    assert missing.is_reached


def test_what_our_set_lost_is_an_error_and_what_apaches_lost_is_shown() -> None:
    lost = Times({("handover", "go sends"): [100.0]}, lost=1)
    *rows, missing = figures({"ours": lost, "apache": Times({("handover", "go sends"): [1.0]}, lost=2)})
    assert [row.errors for row in rows] == [1, 1]
    assert (missing.ours, missing.beside, missing.is_reached) == (1, 2, False)


def test_a_client_whose_programs_are_missing_is_named_and_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(failover, "NEEDS", {"go": ("no-such-go",)})
    assert not is_there("go")
    assert "without the client of go: `no-such-go`" in capsys.readouterr().out
    assert is_there("rmqclient")
