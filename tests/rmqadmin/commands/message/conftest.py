"""Topics that messages are copied from and to, and files of messages."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rmqadmin.core.messages.files.exported_message import ExportedMessage
from rmqadmin.core.messages.files.formats import format_of_content, read_untrusted
from rmqclient.admin import AdminClient
from rmqclient.message import Message
from rmqclient.sending import SendRequests
from rmqproto.bodies.base import MessageQueue
from tests.rmqadmin.conftest import Rmqadmin
from tests.support.servers import Fresh, Server, topic_config, until


@dataclass
class Store:
    """Topics of the running server and their messages."""

    server: Server
    admin: AdminClient
    fresh: Fresh

    def topic(self, queues: int = 2) -> str:
        name = self.fresh("CopyTopic")
        self.admin.create_topic(self.server.broker_addr, topic_config(name, queues))
        until(lambda: name in self.admin.topic_list())
        return name

    def send(
        self, topic: str, body: bytes, queue_id: int = 0, *, born_ms: int | None = None, times: int = 1, **fields: Any
    ) -> None:
        queue = MessageQueue(topic, "broker-a", queue_id)
        encoded = SendRequests(queue, "P").of_copy(
            Message(topic, body * times, **fields), born_timestamp_ms=born_ms or 1000
        )
        self.admin.send_encoded(self.server.broker_addr, queue, encoded)

    def bodies(self, topic: str, queue_id: int = 0) -> list[bytes]:
        at, found = 0, []
        while pulled := self.admin.pull_message(
            self.server.broker_addr, MessageQueue(topic, "broker-a", queue_id), at
        ).messages:
            found += [message.plain_body() for message in pulled]
            at = pulled[-1].queue_offset + 1
        return found


@pytest.fixture
def store(server: Server, admin: AdminClient, fresh: Fresh) -> Store:
    return Store(server, admin, fresh)


def export(rmqadmin: Rmqadmin, topic: str, file: Path, *args: str) -> list[ExportedMessage]:
    ran = rmqadmin("-o", "json", "msg", "export", topic, str(file), "--overwrite", *args, status=0)
    with file.open("rb") as found:
        messages = list(read_untrusted(found, format_of_content(found, None)))
    (row,) = ran.items
    assert (row["messages"], row["file_size_bytes"]) == (len(messages), file.stat().st_size)
    return messages


def lines_file(path: Path, *bodies: str) -> str:
    path.write_text("".join(f'{{"body": "{body}", "broker_name": "broker-a", "queue_id": 0}}\n' for body in bodies))
    return str(path)
