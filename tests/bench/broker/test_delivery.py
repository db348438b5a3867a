"""Messages to a consumer that waits."""

from bench.broker.delivery import Pair, figures
from bench.harness.servers import ours


def test_every_message_is_delivered_to_a_held_pull() -> None:
    with ours() as broker, Pair(broker) as pair:
        found = [*pair.deliveries_us(5), *pair.deliveries_us(5)]
    assert len(found) == 10
    assert all(each > 0 for each in found)


def test_the_median_is_held_against_its_bar() -> None:
    p50, p99 = figures([100.0, 150.0, 900.0], [])
    assert (p50.ours, p50.beside, p50.is_reached) == (150.0, None, True)
    assert (p99.ours, p99.is_reached) == (900.0, None)
    assert next(figures([300.0], [600.0])).ratio == 0.5
