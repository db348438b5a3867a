from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.pop import Handle
from rmqserver.doors.grpc.codes import CallRefused, Code
from rmqserver.doors.grpc.receipts import GIVEN_BACK_MS, RENEWED_MS, Receipt, Renewals, parse_receipt_untrusted

numbers = st.integers(0, 2**62)
handles = st.builds(
    Handle, numbers, numbers, numbers, numbers, st.sampled_from(["0", "1", "2"]), st.just("broker-a"), numbers, numbers
)


@given(handles, numbers)
def test_a_receipt_is_read_back(handle: Handle, log_offset: int) -> None:
    assert parse_receipt_untrusted(str(Receipt(handle, log_offset))) == Receipt(handle, log_offset)
    assert parse_receipt_untrusted(f"{handle} 0 {log_offset}") == Receipt(handle, log_offset), "as after a change"
    assert parse_receipt_untrusted(str(handle)) == Receipt(handle, None)


@given(st.text())
def test_any_other_text_is_refused_so_that_push_consumers_stop_asking(text: str) -> None:
    with pytest.raises(CallRefused) as refused:
        parse_receipt_untrusted(text)
    assert refused.value.code == Code.INVALID_RECEIPT_HANDLE


@dataclass(eq=False)
class Client:
    closed: bool = False


class Broker:
    """Changes invisible times, and notes them."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.changed_ms: list[int] = []
        self.renewals = Renewals(self.change, lambda: self.now_ms)

    def change(
        self, group: str, topic: str, receipt: Receipt, invisible_ms: int, client: object, lite_topic: str
    ) -> Receipt:
        self.changed_ms.append(invisible_ms)
        handle = receipt.handle._replace(pop_time_ms=self.now_ms, invisible_time_ms=invisible_ms)
        return Receipt(handle, receipt.log_offset)

    def popped(self) -> Receipt:
        return Receipt(Handle(0, self.now_ms, RENEWED_MS, 1, "0", "broker-a", 0, 5), 4711)


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_what_ends_soon_is_prolonged_and_its_first_handle_still_counts(broker: Broker) -> None:
    first, client = broker.popped(), Client()
    broker.renewals.hold("G", "T", first, client)
    broker.renewals.renew()
    assert broker.changed_ms == [], "there is time"
    for minutes in (1, 3, 5, 10, 30, 60, 60):
        broker.now_ms = broker.renewals.current("G", "T", first).ends_ms - 5000
        broker.renewals.renew()
        assert broker.changed_ms[-1] == minutes * 60_000
    assert broker.renewals.current("G", "T", first).ends_ms > broker.now_ms
    broker.renewals.settled("G", "T", first)
    assert broker.renewals.current("G", "T", first) == first


def test_after_three_hours_it_is_given_back(broker: Broker) -> None:
    first, client = broker.popped(), Client()
    broker.renewals.hold("G", "T", first, client)
    started_ms = broker.now_ms
    while broker.renewals.held_by(client):
        broker.now_ms = broker.renewals.current("G", "T", first).ends_ms - 1000
        broker.renewals.renew()
    assert broker.changed_ms[-1] == GIVEN_BACK_MS
    assert broker.now_ms - started_ms < 5 * 3_600_000


def test_a_client_that_is_gone_gives_back_what_it_holds(broker: Broker) -> None:
    one, other = Client(), Client()
    broker.renewals.hold("G", "T", broker.popped(), one)
    broker.renewals.hold("G", "U", broker.popped(), other)
    broker.renewals.client_gone(one)
    assert (broker.changed_ms, broker.renewals.held_by(other)) == ([GIVEN_BACK_MS], 1)
