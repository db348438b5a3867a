"""Urgent messages first: a topic for each priority, and a worker that looks into the next topic only when the one
before is empty. This works with any broker; ours also pops by priority in one topic (docs/client-consuming.md)."""

import sys

from rmqclient import ConsumeFrom, Message, Producer, SimpleConsumer

NAMESRV_ADDR = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPICS = ("TicketsUrgent", "TicketsNormal", "TicketsLow")

with Producer.blocking(NAMESRV_ADDR, "help-desk") as producer:
    producer.send(Message("TicketsLow", b"a wish"))
    producer.send(Message("TicketsNormal", b"a question", sharding_key="desk"))
    producer.send(Message("TicketsUrgent", b"the shop is down"))
    producer.send(Message("TicketsNormal", b"a second question", sharding_key="desk"))

worked = 0
with SimpleConsumer.blocking(NAMESRV_ADDR, "agents", consume_from=ConsumeFrom.FIRST_OFFSET) as consumer:
    while worked < 4:
        for topic in TOPICS:
            if messages := consumer.pop(topic, max_count=1):
                print(topic, messages[0].body.decode())
                consumer.ack(messages)
                worked += 1
                break
