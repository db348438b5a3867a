"""Manifests as text and back, and how brokers' differences become one entry."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rmqadmin.core.manifests.manifest import (
    ManifestEntry,
    TextFormat,
    document_of,
    joined,
    manifest_of,
    parse_documents,
    text_of,
)

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=20)
ATTRIBUTES = st.dictionaries(st.sampled_from(["message.type", "queue.type", "lite.expiration"]), NAMES)
TOPICS = st.fixed_dictionaries(
    {"readQueueNums": st.integers(0, 2**31 - 1), "perm": st.integers(0, 7), "order": st.booleans()},
    optional={"attributes": ATTRIBUTES.filter(bool)},
)
BROKERS = st.sampled_from(["broker-a", "broker-b", "broker-c"])


@given(st.dictionaries(NAMES, TOPICS), st.sampled_from(TextFormat))
def test_what_is_written_is_read_back(topics: dict[str, dict[str, Any]], format: TextFormat) -> None:
    manifest = {"topics": {name: ManifestEntry(values) for name, values in topics.items()}}
    text = text_of(document_of(manifest, "export topics"), format)
    assert text.isascii()
    (document,) = parse_documents(text, "here")
    assert manifest_of(document, "here") == manifest


@given(st.dictionaries(BROKERS, TOPICS, min_size=1))
def test_one_entry_says_what_each_broker_has(by_broker: dict[str, dict[str, Any]]) -> None:
    entry = joined(by_broker, ["broker-a", "broker-b", "broker-c"])
    for broker, values in by_broker.items():
        assert entry.on(broker) == values
    assert entry.brokers is None or entry.brokers.keys() == by_broker.keys()
    assert (entry.brokers is None) == (
        len(by_broker) == 3 and all(values == by_broker["broker-a"] for values in by_broker.values())
    )
