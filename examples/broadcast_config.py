"""A configuration for every process of a service: with BROADCASTING each member gets every message, and keeps its own
offsets. A member that starts later reads from the first message on, so it has the last value, too."""

import asyncio
import sys
import tempfile
from pathlib import Path

from rmqclient import ConsumeFrom, Message, MessageModel, Producer, PushConsumer, ReceivedMessage

NAMESRV_ADDR = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"


class Process:
    """One process of the service; here all are in one program."""

    def __init__(self, name: str):
        self.name = name
        self.config: dict[str, str] = {}
        self.has_all = asyncio.Event()
        self.member = PushConsumer(
            NAMESRV_ADDR,
            "shop-config",
            {"ShopConfig": "*"},
            self._set,
            message_model=MessageModel.BROADCASTING,
            instance_name=name,
            offset_dir=Path(tempfile.mkdtemp()),
            consume_from=ConsumeFrom.FIRST_OFFSET,
            orderly=True,
        )

    async def _set(self, message: ReceivedMessage) -> None:
        key, value = message.body.decode().split("=")
        self.config[key] = value
        if self.config == {"greeting": "Hello", "sale": "on"}:
            self.has_all.set()


async def main() -> None:
    one, two = Process("one"), Process("two")
    async with Producer(NAMESRV_ADDR, "config") as producer, one.member:
        # One key, so that the values of all settings come in their order.
        for line in ("greeting=Hi", "sale=on", "greeting=Hello"):
            await producer.send(Message("ShopConfig", line.encode(), sharding_key="config"))
        async with two.member:
            await asyncio.gather(one.has_all.wait(), two.has_all.wait())
    for process in (one, two):
        print(process.name, *sorted(f"{key}={value}" for key, value in process.config.items()))


asyncio.run(main())
