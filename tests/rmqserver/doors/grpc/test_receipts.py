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
    receipt = Receipt("G", "T", handle, log_offset, "lite")
    assert parse_receipt_untrusted("G", "T", str(receipt), "lite") == receipt
    assert parse_receipt_untrusted("G", "T", str(receipt)) == receipt, "Java's client does not tell the lite topic"
    assert parse_receipt_untrusted("G", "T", f"{handle} 0 {log_offset}", "lite") == receipt, "as after a change"
    assert parse_receipt_untrusted("G", "T", str(handle)) == Receipt("G", "T", handle, None)


@given(st.text())
def test_any_other_text_is_refused_so_that_push_consumers_stop_asking(text: str) -> None:
    with pytest.raises(CallRefused) as refused:
        parse_receipt_untrusted("G", "T", text)
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

    def change(self, receipt: Receipt, invisible_ms: int, client: object) -> Receipt:
        self.changed_ms.append(invisible_ms)
        handle = receipt.handle._replace(pop_time_ms=self.now_ms, invisible_time_ms=invisible_ms)
        return receipt._replace(handle=handle)

    def popped(self, topic: str = "T") -> Receipt:
        return Receipt("G", topic, Handle(0, self.now_ms, RENEWED_MS, 1, "0", "broker-a", 0, 5))


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_what_ends_soon_is_prolonged_and_its_first_handle_still_counts(broker: Broker) -> None:
    first, client = broker.popped(), Client()
    broker.renewals.hold(first, client)
    broker.renewals.renew()
    assert broker.changed_ms == [], "there is time"
    for minutes in (1, 3, 5, 10, 30, 60, 60):
        broker.now_ms = broker.renewals.current(first).ends_ms - 5000
        broker.renewals.renew()
        assert broker.changed_ms[-1] == minutes * 60_000
    told = first._replace(log_offset=4711)
    assert broker.renewals.current(told).log_offset == 4711, "the client's: a receive may not have looked"
    assert broker.renewals.current(first).ends_ms > broker.now_ms
    broker.renewals.settled(first)
    assert broker.renewals.current(first) == first


def test_after_three_hours_it_is_given_back(broker: Broker) -> None:
    first, client = broker.popped(), Client()
    broker.renewals.hold(first, client)
    started_ms = broker.now_ms
    while broker.renewals.are_any:
        broker.now_ms = broker.renewals.current(first).ends_ms - 1000
        broker.renewals.renew()
    assert broker.changed_ms[-1] == GIVEN_BACK_MS
    assert broker.now_ms - started_ms < 5 * 3_600_000


def test_a_client_that_is_gone_gives_back_what_it_holds(broker: Broker) -> None:
    one, other = Client(), Client()
    broker.renewals.hold(broker.popped(), one)
    broker.renewals.hold(broker.popped("U"), other)
    broker.renewals.client_gone(one)
    assert (broker.changed_ms, broker.renewals.are_any) == ([GIVEN_BACK_MS], True)
    broker.renewals.client_gone(other)
    assert (broker.changed_ms, broker.renewals.are_any) == ([GIVEN_BACK_MS, GIVEN_BACK_MS], False)
