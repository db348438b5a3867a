from __future__ import annotations

import pytest

from rmqproto.errors import UsageError
from rmqproto.message.record import host_bytes
from rmqserver.advertise import Advertise, local_host


def test_what_is_asked_for_is_registered_and_stored() -> None:
    advertise = Advertise("0.0.0.0", 1234, "127.0.0.9")
    assert advertise.addr("127.0.0.1") == "127.0.0.9:1234"
    assert advertise.record_host() == host_bytes("127.0.0.9", 1234)


def test_auto_is_the_listener_or_our_end_of_the_connection() -> None:
    assert Advertise("127.0.0.1", 1).addr("10.0.0.1") == "127.0.0.1:1"
    assert Advertise("0.0.0.0", 1).addr("10.0.0.1") == "10.0.0.1:1"
    assert Advertise("::", 1).addr("fd00::1") == "[fd00::1]:1"
    assert Advertise("0.0.0.0", 1).record_host() is None


def test_a_wildcard_and_a_nameserver_on_this_machine_still_give_an_address() -> None:
    """The address depends on the machine. Without a network it is a loopback address, but never a wildcard."""
    host, _, port = Advertise("0.0.0.0", 1).addr("127.0.0.1").rpartition(":")
    assert port == "1"
    assert host not in ("", "0.0.0.0")


def test_a_name_without_address_is_a_usage_error() -> None:
    assert Advertise("127.0.0.1", 1, "localhost").record_host() is not None
    with pytest.raises(UsageError, match=r"no-such-host\.invalid"):
        Advertise("127.0.0.1", 1, "no-such-host.invalid").record_host()


@pytest.mark.parametrize(
    ("listen", "host"),
    [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("127.0.0.1", "127.0.0.1"), ("10.0.0.1", "10.0.0.1")],
)
def test_a_process_on_this_machine_reaches_every_listener(listen: str, host: str) -> None:
    assert local_host(listen) == host
