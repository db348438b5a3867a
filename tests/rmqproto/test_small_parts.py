"""Hashes, properties, names and signatures, compared with Java's values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto import names
from rmqproto.codes import version_name
from rmqproto.java.java_hash import extend_hash, java_hash, tag_code
from rmqproto.message import properties
from rmqproto.message.record import body_crc
from rmqproto.wire.credentials import Credentials
from rmqproto.wire.signing import sign, signature
from tests.support.quick import in_one_test


@in_one_test(
    ("", 0), ("*", 42), ("TagA", 2598919), ("TagB", 2598920), ("订单", 1129459), ("中文", 646394),
    ("\U0001f600", 1772899), ("order_paid_v2_tag", 968481977), ("TopicTest", -1902610879),
    ("TopicTest-0", 1247014820), ("TopicTest#KEY1", -1656969516),
)  # fmt: skip
def test_java_hash(text: str, value: int) -> None:
    assert java_hash(text) == value


def reference_hash(text: str) -> int:
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return value


@given(st.text(), st.text())
def test_hash_can_go_on_from_a_prefix(prefix: str, rest: str) -> None:
    assert extend_hash(extend_hash(0, prefix), rest) == reference_hash(prefix + rest)


def test_a_key_longer_than_the_interpreters_digit_limit() -> None:
    assert extend_hash(0, "k" * 32_000) == reference_hash("k" * 32_000)


def test_no_tag_is_zero() -> None:
    assert (tag_code(None), tag_code("")) == (0, 0)


def test_crc_without_its_sign() -> None:
    assert body_crc(b"hello") == 907060870


def test_properties_as_java_reads_them() -> None:
    assert properties.parse("TAGS\x01A\x02KEYS\x01a b\x02") == {"TAGS": "A", "KEYS": "a b"}
    assert properties.parse("TAGS\x01A") == {"TAGS": "A"}  # old writers leave out the last separator
    assert properties.parse("a\x01b\x01c\x02\x01x\x02y\x01\x02z\x02") == {"a": "b\x01c"}
    assert properties.render({"TAGS": "A", "WAIT": "true"}) == "TAGS\x01A\x02WAIT\x01true\x02"


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1)


@given(st.dictionaries(texts, texts))
def test_properties_round_trip(given: dict[str, str]) -> None:
    text = properties.render(given)
    assert properties.parse(text) == given
    assert properties.parse_untrusted(text.encode()) == given
    for name, value in given.items():
        assert properties.find_bytes(text.encode(), f"{name}\x01".encode()) == value.encode()


@pytest.mark.parametrize("bad", [{"a\x01": "b"}, {"a": "b\x02"}])
def test_a_separator_in_a_property_is_refused(bad: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="separator"):
        properties.render(bad)


pieces = st.sampled_from(
    ["TAGS", "KEYS", "UNIQ_KEY", "MY", "DELAY", "MSG_REGION", "WAIT", "\x01", "\x02", "\x02", "7F0A", "a b", "true", ""]
)


@given(st.lists(pieces, max_size=12).map("".join))
def test_one_property_is_found_as_among_all(text: str) -> None:
    """Only whole names match; if a name comes twice, the last nonempty value counts."""
    parsed = properties.parse(text)
    for name in ("TAGS", "KEYS", "UNIQ_KEY", "DELAY"):
        assert properties.find_bytes(text.encode(), f"{name}\x01".encode()).decode() == parsed.get(name, "")
    expected = tuple(parsed.get(name, "").encode() for name in ("UNIQ_KEY", "KEYS", "TAGS"))
    assert properties.message_keys(text.encode()) == expected


@in_one_test(
    ("T", None), ("%RETRY%g", None), ("a|b-c_d", None), ("%RETRY%" + "g" * 120, None),
    ("", "blank"), ("  ", "blank"), ("a/b", "illegal"), ("../x", "illegal"), ("a\0", "illegal"), ("T\n", "illegal"),
    ("ä", "illegal"), ("t" * 128, "longer than topic max length: 127"),
    ("%DLQ%" + "g" * 251, "DLQ or Retry topic: %DLQ%"),
    ("%RETRY%" + "g" * 249, "longer than topic max length: 255"),
)  # fmt: skip
def test_topic_names(topic: str, problem: str | None) -> None:
    found = names.topic_problem(topic)
    assert found is None if problem is None else problem in (found or "")


def test_group_names() -> None:
    assert names.group_problem("g") is None
    assert "illegal" in (names.group_problem("../g") or "")
    assert "120" in (names.group_problem("g" * 121) or "")


def test_signature_of_the_appendix() -> None:
    ext = {"topic": "T", "queueId": "0"}
    sign(ext, b"body", Credentials("ak", "sk12345678"))
    assert ext["Signature"] == "Xt+dg1J/qteVMXEILEryAQNcR5E="
    assert signature(ext, b"body", "sk12345678") == ext["Signature"]


def test_the_secret_key_is_not_shown() -> None:
    assert "sk12345678" not in repr(Credentials("ak", "sk12345678"))


@in_one_test(
    (-1, "V-1"), (15, "V15"), (16, "V3_0_1_SNAPSHOT"), (28, "V3_0_7_SNAPSHOT"), (37, "V3_0_11"), (63, "V3_1_8"),
    (121, "V3_4_9"), (213, "V4_0_0"), (232, "V4_1_0_SNAPSHOT"), (317, "V4_5_2"), (409, "V4_9_8"), (479, "V5_3_3"),
    (513, "V5_5_0"), (612, "HIGHER_VERSION"), (1 << 20, "HIGHER_VERSION"),
)  # fmt: skip
def test_names_of_versions(ordinal: int, name: str) -> None:
    """409, which is 4.9.8, used to be shown as a bare number, though mqadmin showed its name."""
    assert version_name(ordinal) == name
