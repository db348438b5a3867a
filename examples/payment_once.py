"""A payment is booked once, however often its message comes. The message's key and the booking are written in one
transaction of the database: if either fails, neither is there, and the message comes again. A record of consumed
messages beside the database cannot promise that, because a program can die between the two writes."""

import sqlite3
import sys
import tempfile
from pathlib import Path
from threading import Event

from rmqclient import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage

NAMESRV_ADDR = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

path = Path(tempfile.mkdtemp(), "account.db")
came = Event()
attempts = 0


def book(message: ReceivedMessage) -> None:
    global attempts
    attempts += 1
    with sqlite3.connect(path) as database:  # commits at its end, or undoes everything after an exception
        try:
            database.execute("INSERT INTO booked VALUES (?)", (message.keys[0],))
        except sqlite3.IntegrityError:
            pass  # it was booked before: this message is done
        else:
            database.execute("UPDATE account SET euros = euros + ?", (int(message.body),))
    if attempts == 3:
        came.set()


with sqlite3.connect(path) as database:
    database.execute("CREATE TABLE booked (payment TEXT PRIMARY KEY)")
    database.execute("CREATE TABLE account (euros INTEGER)")
    database.execute("INSERT INTO account VALUES (0)")

with Producer.blocking(NAMESRV_ADDR, "payments") as producer:
    producer.send(Message("Payments1", b"7", keys="payment-1"))
    producer.send(Message("Payments1", b"7", keys="payment-1"))  # after a time-out, say
    producer.send(Message("Payments1", b"5", keys="payment-2"))

first = ConsumeFrom.FIRST_OFFSET
with PushConsumer.blocking(NAMESRV_ADDR, "accounting", {"Payments1": "*"}, book, concurrency=1, consume_from=first):
    came.wait()
with sqlite3.connect(path) as database:
    print("messages:", attempts, "euros:", *database.execute("SELECT euros FROM account").fetchone())
