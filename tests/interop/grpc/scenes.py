"""Plays one scene with Apache's Python client: ENDPOINTS SCENE TOPIC GROUP. Prints a line "got BODY ATTEMPT" for each
message that it consumed."""

import os
import sys
import threading
import time

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType
from rocketmq.v5.exception import InternalErrorException

endpoints, scene, topic, group = sys.argv[1:]
configuration = ClientConfiguration(endpoints, Credentials("", ""))


def said(line):
    sys.stdout.write(f"{line}\n")  # in one piece: threads tell
    sys.stdout.flush()


def told(message):
    said(f"got {message.body.decode()} {message.delivery_attempt}")


def made(body, **fields):
    message = Message()
    message.topic, message.body = topic, body.encode()
    for name, value in fields.items():
        setattr(message, name, value)
    return message


def producer(**more):
    running = Producer(configuration, (topic,), **more)
    running.startup()
    return running


def send(*bodies, **fields):
    running = producer()
    for body in bodies:
        message = made(body, keys=f"k-{body}", **fields)
        message.add_property("p", body)
        running.send(message)
    running.shutdown()


def receive(count, expression=None):
    consumer = SimpleConsumer(configuration, group, {topic: expression or FilterExpression()})
    consumer.startup()
    left = count
    while left:
        try:
            messages = consumer.receive(16, 15) or []
        except InternalErrorException as error:  # Apache's proxy, if the settings come behind the first receive
            if '"settings" is null' in str(error):
                continue
            raise
        for message in messages:
            told(message)
            consumer.ack(message)
            left -= 1
    consumer.shutdown()


class Listener(MessageListener):
    def __init__(self, count, fails_first=False):
        self.left, self.fails, self.done = count, fails_first, threading.Event()

    def consume(self, message):
        told(message)
        self.left -= 1
        if not self.left:
            self.done.set()
        if self.fails:
            self.fails = False
            return ConsumeResult.FAILURE
        return ConsumeResult.SUCCESS


def push(count, fails_first=False):
    listener = Listener(count, fails_first)
    consumer = PushConsumer(configuration, group, listener, {topic: FilterExpression()})
    consumer.startup()
    listener.done.wait()
    time.sleep(1)  # the last acknowledgement is on its way
    consumer.shutdown()


class Checker(TransactionChecker):
    def __init__(self, answer):
        self.answer, self.asked = answer, threading.Event()

    def check(self, message):
        self.asked.set()
        return self.answer


if scene == "simple":
    send("one", "two", "three", tag="A")
    receive(3)
elif scene == "tags":
    send("a", tag="A")
    send("b", tag="B")
    receive(1, FilterExpression("B"))
elif scene == "sql":
    send("a", tag="A")
    send("b", tag="B")
    receive(1, FilterExpression("TAGS = 'B'", FilterType.SQL))
elif scene == "push":
    send("one", "two", "three", tag="A")
    push(3)
elif scene == "retry":
    send("again", tag="A")
    push(2, fails_first=True)
elif scene == "fifo":
    send(*"012345", message_group="g")
    push(6)
elif scene == "delay":
    send("late", delivery_timestamp=int(time.time()) + 2)
    receive(1)
elif scene == "transaction":
    running = producer(checker=Checker(TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED))
    for body, end in (("rolled back", "rollback"), ("committed", "commit")):
        transaction = running.begin_transaction()
        running.send(made(body), transaction)
        getattr(transaction, end)()
    receive(1)
elif scene == "check":
    checker = Checker(TransactionResolution.COMMIT)
    running = producer(checker=checker)
    running.send(made("asked"), running.begin_transaction())
    checker.asked.wait()
    receive(1)
elif scene == "send-on":
    running, number = producer(), 0
    said("started")
    while True:
        try:
            running.send(made(str(number)))
            said(f"sent {number}")
        except Exception as error:
            said(f"failed {number} {error!r}")
        number += 1
        time.sleep(0.02)
elif scene == "receive-on":
    consumer = SimpleConsumer(configuration, group, {topic: FilterExpression()})
    consumer.startup()
    said("started")
    while True:
        try:
            for message in consumer.receive(16, 15) or []:
                told(message)
                consumer.ack(message)
        except Exception as error:
            said(f"failed {error!r}")
            time.sleep(0.1)
else:
    raise SystemExit(f"no scene {scene}")
sys.stdout.flush()
os._exit(0)  # its threads do not always end
