"""``put`` and ``append`` store the same."""

from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqproto.message.record import host_bytes
from rmqserver.store.message_store import MessageStore
from rmqserver.store.new_message import NewMessage
from rmqserver.store.results import MessageRefused
from tests.support.clock import Clock

from .conftest import TINY

HOSTS = st.sampled_from([host_bytes("10.1.2.3", 50000), host_bytes("fe80::1", 10911)])
TEXTS = st.text(st.characters(exclude_characters="\0\x02", exclude_categories=["Cs"]), min_size=1, max_size=20)
NAMES = TEXTS.map(lambda text: text.replace("\x01", "")).filter(bool)
I32, I64 = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1)

MESSAGES = st.builds(
    NewMessage,
    topic=st.sampled_from(["T", "%RETRY%g", "SCHEDULE_TOPIC_XXXX", "t" * 127, "%RETRY%" + "t" * 150, "t" * 128, "a/b"]),
    queue_id=st.integers(0, 7),
    flag=I32 | st.just(1 << 31),
    sys_flag=I32,
    born_timestamp_ms=I64,
    born_host=HOSTS,
    store_host=HOSTS,
    reconsume_times=I32,
    body=st.binary(max_size=300) | st.just(bytes(2000)),
    properties=st.dictionaries(NAMES | st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "DELAY"]), TEXTS | st.just("3")),
    prepared_offset=I64,
)


def joined(properties: dict[str, str]) -> bytes:
    return b"".join(b"%b\x01%b\x02" % (name.encode(), value.encode()) for name, value in properties.items())


def stored(root: str, messages: list[NewMessage], *, is_put: bool) -> tuple[list[object], dict[str, bytes]]:
    """The store's answer for each message, and its files: log, queues and index."""
    directory = Path(root, "put" if is_put else "append")
    store = MessageStore(directory, TINY, clock_ms=Clock(), background=False)
    store.open()
    answers: list[object] = []
    for message in messages:
        try:
            if is_put:
                answers.append(store.put(message))
            else:
                *fields, properties, prepared_offset = msgspec.structs.astuple(message)
                answers.append(store.append(*[*fields, joined(properties), prepared_offset]))
        except MessageRefused as refused:
            answers.append(refused.status)
        store.commit()
    store.close()
    paths = [path for name in ("commitlog", "consumequeue", "index") for path in directory.glob(f"{name}/**/*")]
    return answers, {str(path.relative_to(directory)): path.read_bytes() for path in paths if path.is_file()}


@given(st.lists(MESSAGES, min_size=1, max_size=4))
def test_put_and_append_store_the_same_bytes(messages: list[NewMessage]) -> None:
    with TemporaryDirectory() as root:
        assert stored(root, messages, is_put=True) == stored(root, messages, is_put=False)


def test_a_value_keeps_the_separators_it_came_with(tmp_path: Path) -> None:
    store = MessageStore(tmp_path, TINY, background=False)
    store.open()
    host = host_bytes("127.0.0.1", 1)
    message = NewMessage("T", 0, 0, 0, 1, host, host, 0, b"body", {"a": "b\x01c"})
    store.put(message)
    store.commit()
    (record,) = store.get("T", 0, 0, 1).records()
    assert record.endswith(b"a\x01b\x01c\x02")
    message.body = bytes(TINY.message_size_max_bytes + 1)
    with pytest.raises(MessageRefused, match="maxMessageSize"):
        store.put(message)
    store.close()
