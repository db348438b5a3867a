"""How fast a consumer consumes, in the terms of ``ConsumerStatsManager`` (5.5.0)."""

import msgspec
import pytest

from rmqclient.consuming.rates import Rates
from rmqclient.message import ReceivedMessage
from rmqproto.message.properties import render
from tests.rmqclient.consuming.test_process_queue import TEMPLATE

ONE = ReceivedMessage(TEMPLATE, "broker-a")


def test_tps_are_of_the_last_minute_and_times_of_calls_and_pulls() -> None:
    rates = Rates()
    rates.consumed([ONE] * 3, 100.0, 4.0, is_success=True)
    rates.consumed([ONE], 100.0, 8.0, is_success=False)
    rates.pulled("T", 100.0, 30, 2.5)
    rates.pulled("T", 101.0, 10, 7.5)
    status = rates.status_table(150.0)["T"]
    assert status.consume_ok_tps == pytest.approx(3 / 50)
    assert status.consume_failed_tps == pytest.approx(1 / 50)
    assert status.consume_failed_msgs == 1
    assert status.consume_rt == pytest.approx(6.0)
    assert status.pull_tps == pytest.approx(40 / 50)
    assert status.pull_rt == pytest.approx(5.0)


@pytest.mark.parametrize(("age_s", "tps"), [(1.0, 1.0), (10.0, 1.0), (20.0, 0.5)])
def test_a_young_consumer_is_not_measured_by_a_minute_that_it_has_not_lived(age_s: float, tps: float) -> None:
    rates = Rates()
    for _ in range(10):
        rates.consumed([ONE], 107.0, 1.0, is_success=True)
    assert rates.status_table(107.0 + age_s)["T"].consume_ok_tps == pytest.approx(tps)


def test_what_is_older_is_forgotten_but_failures_and_the_time_of_a_call_last_an_hour() -> None:
    """Otherwise a consumer that stopped consuming would look busy forever."""
    rates = Rates()
    rates.consumed([ONE], 100.0, 4.0, is_success=False)
    assert rates.status_table(155.0)["T"].consume_failed_tps > 0
    status = rates.status_table(165.0)["T"]
    assert (status.consume_failed_tps, status.consume_failed_msgs, status.consume_rt) == (0, 1, 4.0)
    status = rates.status_table(3700.0)["T"]
    assert (status.consume_failed_msgs, status.consume_rt) == (0, 0)
    for second in range(1000):
        rates.consumed([ONE], 4000.0 + second, 1.0, is_success=True)
    assert rates.status_table(5000.0)["T"].consume_ok_tps == pytest.approx(1.0)


def test_each_subscribed_topic_has_a_row_and_the_retry_topic_its_own_messages() -> None:
    retry = "%RETRY%G"
    raw = render({"RETRY_TOPIC": "T"}).encode()
    again = ReceivedMessage(msgspec.structs.replace(TEMPLATE, topic=retry, properties_raw=raw), "broker-a")
    pulls, pops = Rates(["T", retry]), Rates(["T"])
    assert pulls.status_table(0.0).keys() == {"T", retry}
    for rates in (pulls, pops):
        rates.consumed([again], 1.0, 1.0, is_success=True)
    assert [rates.consume_ok_tps > 0 for rates in pulls.status_table(2.0).values()] == [False, True]
    assert [(topic, rates.consume_ok_tps > 0) for topic, rates in pops.status_table(2.0).items()] == [("T", True)]
