"""A payment is booked once, however often its message comes. The record of the message and the booking are written in
one transaction of the database: if either fails, neither is there, and the message comes again. A record of consumed
messages beside the database cannot promise that, because a program can die between the two writes."""

import sqlite3
import sys
import tempfile
from pathlib import Path
from threading import Event
from typing import Any

from rmqclient import (
    ConsumeFrom,
    ConsumeStatus,
    Deduplication,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    by_key,
)

NAMESRV_ADDR = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

path = Path(tempfile.mkdtemp(), "account.db")
came = Event()
attempts = 0


def book(message: ReceivedMessage, cursor: Any) -> None:
    cursor.execute("UPDATE account SET euros = euros + ?", (int(message.body),))


def listener(message: ReceivedMessage) -> ConsumeStatus | None:
    global attempts
    status = book_once(message)
    attempts += 1
    if attempts == 3:
        came.set()
    return status


with sqlite3.connect(path) as database:
    database.execute("CREATE TABLE account (euros INTEGER)")
    database.execute("INSERT INTO account VALUES (0)")

with Producer.blocking(NAMESRV_ADDR, "payments") as producer:
    producer.send(Message("Payments1", b"7", keys="payment-1"))
    producer.send(Message("Payments1", b"7", keys="payment-1"))  # after a time-out, say
    producer.send(Message("Payments1", b"5", keys="payment-2"))

# On several machines: Deduplication(lambda: psycopg.connect("dbname=shop"), key_of=by_key)
first = ConsumeFrom.FIRST_OFFSET
with Deduplication(path, key_of=by_key) as once:
    book_once = once.transaction(book)
    with PushConsumer.blocking(
        NAMESRV_ADDR, "accounting", {"Payments1": "*"}, listener, concurrency=1, consume_from=first
    ):
        came.wait()
with sqlite3.connect(path) as database:
    print("messages:", attempts, "euros:", *database.execute("SELECT euros FROM account").fetchone())
