"""The table of messages is the one that real clients and a real proxy speak."""

import json
from pathlib import Path

import pytest
from google.protobuf.descriptor_pool import Default

from rmqserver.doors.grpc.messages import CLASSES, PACKAGE, value

GOLDEN = json.loads((Path(__file__).parents[3] / "golden/grpc/messages.json").read_text())


@pytest.mark.parametrize("name", sorted({name for name, _ in GOLDEN}))
def test_recorded_bytes_are_read_whole_and_written_back(name: str) -> None:
    for raw in (bytes.fromhex(text) for given, text in GOLDEN if given == name):
        message = CLASSES[name].FromString(raw)
        known = CLASSES[name]()
        known.CopyFrom(message)
        known.DiscardUnknownFields()
        assert len(known.SerializeToString()) == len(raw)


def test_they_are_in_no_pool_of_others() -> None:
    with pytest.raises(KeyError):
        Default().FindMessageTypeByName(f"{PACKAGE}.Message")


def test_optional_fields_have_presence() -> None:
    settings = CLASSES["Settings"].FromString(b"")
    assert not settings.HasField("request_timeout")
    assert settings.WhichOneof("pub_sub") is None
    settings.publishing.topics.add(name="T")
    assert settings.WhichOneof("pub_sub") == "publishing"


def test_values_have_their_numbers() -> None:
    assert (value("Encoding", "GZIP"), value("MessageType", "PRIORITY"), value("ClientType", "SIMPLE_CONSUMER")) == (
        2,
        6,
        3,
    )
