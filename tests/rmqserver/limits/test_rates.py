import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqserver.limits import BURST_S, NAMES_MAX, RATE_MAX, Meter, NamedRates, parse_rates


@pytest.mark.parametrize(
    ("text", "rates"),
    [
        ("", NamedRates()),
        ("0", NamedRates()),
        ("1000", NamedRates(1000)),
        ("orders=50", NamedRates(0, {"orders": 50})),
        (" 7 ; orders = 50;%RETRY%g=0;", NamedRates(7, {"orders": 50, "%RETRY%g": 0})),
        ("a=b=3", NamedRates(0, {"a=b": 3})),
    ],
)
def test_rates_as_they_are_written(text: str, rates: NamedRates) -> None:
    assert parse_rates(text) == rates


@pytest.mark.parametrize("text", ["many", "-1", "1.5", "=5", "orders=", "orders", f"{RATE_MAX + 1}", "٣", "1;a=x"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="NAME=50"):
        parse_rates(text)


def test_no_rate_but_zeros_is_none() -> None:
    assert not parse_rates("0;a=0").is_any
    assert parse_rates("0;a=1").is_any
    assert parse_rates("1").is_any


class Clock:
    now_s = 5.0

    def __call__(self) -> float:
        return self.now_s


def test_a_burst_of_one_second_then_the_rate() -> None:
    clock = Clock()
    meter = Meter(clock)
    assert [meter.takes("a", 3) for _ in range(5)] == [True] * 3 + [False] * 2
    assert meter.takes("b", 3)  # each name has its own
    clock.now_s += 1 / 3
    assert [meter.takes("a", 3) for _ in range(2)] == [True, False]
    clock.now_s += 100
    assert [meter.takes("a", 3) for _ in range(5)] == [True] * 3 + [False] * 2


@given(rate=st.integers(1, 50), pauses_s=st.lists(st.floats(0, 0.5), min_size=1, max_size=200))
def test_never_more_than_the_rate_and_one_burst(rate: int, pauses_s: list[float]) -> None:
    clock = Clock()
    meter = Meter(clock)
    taken_s = []
    for pause_s in pauses_s:
        clock.now_s += pause_s
        if meter.takes("a", rate):
            taken_s.append(clock.now_s)
    assert taken_s
    for start, from_s in enumerate(taken_s):
        for end in range(start, len(taken_s)):
            assert end - start + 1 <= rate * (taken_s[end] - from_s + BURST_S) + 1e-3


def test_names_without_end_take_no_memory_without_end() -> None:
    meter = Meter(Clock())
    assert all(meter.takes(str(number), 1) for number in range(NAMES_MAX + 50))
    assert len(meter._used_until_s) == NAMES_MAX
    assert not meter.takes(str(NAMES_MAX), 1)
