"""Addresses, addresses behind others, the name servers that are asked, and texts of settings."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqclient.addresses import NO_MAP, AddressMap, parse_address_map, parse_addresses, split_rules
from rmqclient.admin import AdminClient
from rmqclient.admin.caller import config_request, config_values_untrusted
from rmqclient.consumers.push_consumer import PushConsumer
from rmqclient.consuming.start import ConsumeFrom
from rmqclient.message import Message
from rmqclient.producers.producer import Producer
from rmqproto.errors import UsageError
from rmqproto.hosts import split_address
from rmqproto.java import java_properties
from tests.rmqclient.collector import Collector, until
from tests.support.processes import free_ports
from tests.support.quick import in_one_test
from tests.support.servers import Fresh, Server


def test_several_addresses_are_joined_by_semicolons() -> None:
    assert parse_addresses(" a:1; b:2 ;") == ["a:1", "b:2"]
    assert parse_addresses("http://a:1;http://b:2") == ["a:1", "b:2"]  # the form of Apache's clients


def test_an_ipv6_host_stands_in_brackets() -> None:
    assert split_address("[::1]:9876") == ("::1", 9876)


def test_a_host_may_be_a_name() -> None:
    assert split_address("broker-1.example.:10911") == ("broker-1.example.", 10911)
    assert split_address("bücher.example:10911") == ("bücher.example", 10911)


@pytest.mark.parametrize("character", ["\u200b", "\ufeff", "\u00ad", "\u2060", "\u00a0", "\0"])
def test_a_host_holds_nothing_invisible(character: str) -> None:
    """The codec for names leaves some of it out, and another host would be reached."""
    for text in (f"{character}live:9876", f"li{character}ve:9876", f"live{character}:9876"):
        with pytest.raises(UsageError):
            split_address(text)


@pytest.mark.parametrize("text", ["a:1,b:2", "a:1 b:2", "a b:1"])
def test_addresses_that_are_joined_otherwise_are_told_how(text: str) -> None:
    """They were looked up as the name of one host."""
    with pytest.raises(UsageError) as caught:
        parse_addresses(text)
    assert "joined by semicolons" in str(caught.value.hint)
    with pytest.raises(UsageError):
        split_address("a:1;b:2")


NONE = ["", ";", "host", "host:", ":9876", "host:port", "host:0", "host:65536", "host:٣", "host:" + "9" * 20]
UNKNOWABLE = ["a..b:9876", f"{'n' * 64}:9876", f"{'ü' * 64}:9876", "ü..b:9876"]


@pytest.mark.parametrize("text", [*NONE, *UNKNOWABLE])
def test_what_is_no_address_is_said_before_anything_is_sent(text: str) -> None:
    with pytest.raises(UsageError):
        parse_addresses(text)


@pytest.mark.parametrize("port", ["99999", "65536", "0"])
def test_a_port_that_is_none_is_named(port: str) -> None:
    with pytest.raises(UsageError, match=f"'{port}' is not a port from 1 to 65535"):
        parse_addresses(f"host:{port}")


@in_one_test(
    ("10.0.0.1:10911", ("near", 1)),  # the rule for the port, though that for the host comes first
    ("10.0.0.1:10912", ("any", 10912)),
    ("10.0.0.2:10911", ("two", 10911)),
    ("10.0.0.2:10912", ("10.0.0.2", 10912)),
    ("BROKER:7", ("::1", 8)),
    ("[fe80::1]:5", ("10.0.0.1", 5)),  # not mapped again
    ("other:5", ("other", 5)),
)
def test_one_rule_at_most_decides(address: str, endpoint: tuple[str, int]) -> None:
    text = "10.0.0.1=any, 10.0.0.1:10911=near:1,10.0.0.2:10911=two,Broker=[::1]:8,[fe80::1]=10.0.0.1,"
    rules = parse_address_map(split_rules(text))
    assert rules.endpoint(address) == endpoint
    assert parse_address_map(split_rules(rules.text())) == rules
    assert msgspec.json.decode(msgspec.json.encode(rules), type=AddressMap) == rules, "as Spark's tasks get it"


@in_one_test(
    ("a", "no ="),
    ("", "no ="),
    ("=b", "'' is neither"),
    ("a=", "'' is neither"),
    ("a:0=b", "'a:0' is neither"),
    ("a=b:65536", "'b:65536' is neither"),
    ("::1=b", "in brackets"),
    ("[a]=b", "in brackets"),
    ("a=b=c", "'b=c'"),
    ("a=b,c=d", "'b,c=d'"),
    ("a=http://b", "neither"),
)
def test_a_bad_rule_is_refused(rule: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_address_map([rule])
    assert words in str(refused.value)
    assert "HOST[:PORT]=HOST[:PORT]" in (refused.value.hint or "")


def test_two_rules_about_one_address_are_refused() -> None:
    with pytest.raises(UsageError, match="two rules map the address A"):
        parse_address_map(["a=b", "a:1=c", "A=d"])


def test_an_error_says_where_the_connection_went() -> None:
    rules = AddressMap((("a", "[::1]"), ("b", "c:2")))
    assert [rules.by_way(each) for each in ("a:1", "b:1", "c:1")] == [
        " (mapped to [::1]:1)", " (mapped to c:2)", "",
    ]  # fmt: skip
    assert NO_MAP.by_way("a:1") == ""


@pytest.fixture
def addrs(server: Server) -> str:
    return f"127.0.0.1:{free_ports()[0]};{server.namesrv_addr}"


def test_an_admin_client_asks_the_next(addrs: str, server: Server) -> None:
    with AdminClient(addrs) as admin:
        brokers = admin.cluster_info().broker_addr_table.values()
        assert [broker.broker_addrs for broker in brokers] == [{0: server.broker_addr}]
        assert admin.topic_list()


@pytest.mark.anyio
async def test_producers_and_consumers_ask_the_next(addrs: str, fresh: Fresh) -> None:
    topic, collect = fresh("Names"), Collector()
    async with Producer(addrs, fresh("Producer")) as producer:
        await producer.send(Message(topic, b"m"))
        first = ConsumeFrom.FIRST_OFFSET
        async with PushConsumer(addrs, fresh("Group"), {topic: "*"}, collect, consume_from=first):
            await until(lambda: bool(collect.bodies))
    assert collect.bodies == [b"m"]


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_values_arrive_as_given(values: dict[str, str]) -> None:
    """A Windows path or a message delay table must keep its backslashes and blanks."""
    sent = config_request(values)
    assert sent.isascii()
    assert java_properties.parse_untrusted(sent) == values


def test_what_only_our_server_has_is_a_comment_of_its_answer() -> None:
    answer = b"a=1\n#ours=0\n"
    assert config_values_untrusted(answer) == {"a": "1"}
    assert config_values_untrusted(answer, with_own_defaults=True) == {"a": "1", "ours": "0"}


def test_an_answer_is_raw() -> None:
    answer = "path=C:\\temp\\new\nmessageDelayLevel= 1s 2s\nempty=\nurl=a=b:c\n\nno pair\n中=文\n".encode()
    assert config_values_untrusted(answer) == {
        "path": "C:\\temp\\new", "messageDelayLevel": " 1s 2s", "empty": "", "url": "a=b:c", "中": "文",
    }  # fmt: skip
