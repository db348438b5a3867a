"""The trio clients over TLS: a producer and a consumer against a server that accepts nothing else."""

import os
import ssl
from pathlib import Path

import anyio
import pytest

from rmqclient.consumers.push_consumer import PushConsumer
from rmqclient.consuming.start import ConsumeFrom
from rmqclient.message import Message, ReceivedMessage
from rmqclient.producers.producer import Producer
from rmqproto.errors import RocketMQError
from tests.support.certificates import Authority
from tests.support.servers import sets, standalone

LIMIT_S = 120
LARGE_BYTES = 2 << 20


@pytest.mark.anyio
async def test_messages_of_any_size_go_and_come_and_strangers_do_not(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    signed = authority.sign("server")
    settings = sets(
        "tls.server.mode=enforcing", f"tls.server.certPath={signed.cert}", f"tls.server.keyPath={signed.key}"
    )
    context = ssl.create_default_context(cafile=str(authority.cert))
    bodies = {b"small", *(os.urandom(LARGE_BYTES) for _ in range(3)), *(b"%d" % number for number in range(200))}
    got: set[bytes] = set()
    is_all = anyio.Event()

    async def listen(message: ReceivedMessage) -> None:
        got.add(message.body)
        if got == bodies:
            is_all.set()

    with anyio.fail_after(LIMIT_S), standalone(tmp_path / "server", *settings) as server:
        async with Producer(server.namesrv_addr, "senders", tls=context) as producer:
            async with anyio.create_task_group() as nursery:
                for body in bodies:
                    nursery.start_soon(producer.send, Message("Secured", body))
            first = ConsumeFrom.FIRST_OFFSET
            async with PushConsumer(
                server.namesrv_addr, "readers", {"Secured": "*"}, listen, consume_from=first, tls=context
            ):
                await is_all.wait()
        assert context.session_stats()["connect"] < 20  # connections are reused
        with pytest.raises(RocketMQError):
            async with Producer(server.namesrv_addr, "plain") as plain:
                await plain.send(Message("Secured", b"refused"))
        with pytest.raises(RocketMQError):
            async with Producer(server.namesrv_addr, "strangers", tls=ssl.create_default_context()) as stranger:
                await stranger.send(Message("Secured", b"refused"))
