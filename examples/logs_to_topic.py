"""A program's log goes to a topic, from where a Spark stream counts it (docs/spark-streams.md), or any group reads it.
The handler sends one way: a log line never waits for the broker, and one may be lost if the broker fails."""

import contextlib
import json
import logging
import sys
import time

from rmqclient import BlockingProducer, Message, Producer, PullConsumer, ReceivedMessage
from rmqproto.errors import RefusedError

NAMESRV_ADDR = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"


class TopicHandler(logging.Handler):
    """The level is the message's tag, so that a consumer may take errors only; the logger's name is its key."""

    def __init__(self, producer: BlockingProducer, topic: str):
        super().__init__()
        self._producer, self._topic = producer, topic

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = json.dumps({"at_s": record.created, "text": record.getMessage()})
            self._producer.send_oneway(
                Message(self._topic, line.encode(), tags=record.levelname.lower(), keys=[record.name])
            )
        except Exception:
            self.handleError(record)


log = logging.getLogger("shop")
log.setLevel(logging.INFO)

with Producer.blocking(NAMESRV_ADDR, "logs") as producer:
    log.addHandler(TopicHandler(producer, "ShopLogs"))
    log.info("open")
    log.error("no %s left", "bread")

with PullConsumer.blocking(NAMESRV_ADDR, "log-readers") as reader:
    messages: list[ReceivedMessage] = []
    while len(messages) < 2:  # nothing says when a one-way send has arrived, and the first one makes the topic
        time.sleep(0.1)
        with contextlib.suppress(RefusedError):
            messages = [message for queue in reader.queues("ShopLogs") for message in reader.pull(queue, 0).messages]
for message in sorted(messages, key=lambda message: json.loads(message.body)["at_s"]):
    print(message.tags, message.keys[0], json.loads(message.body)["text"])
