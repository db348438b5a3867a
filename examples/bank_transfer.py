"""A transfer between two banks. Bank A books in its database and tells bank B by a message of a transaction: both
happen or none. Here A's program dies right after its booking. When it is back, the broker asks it how the transaction
ended, and the message goes out."""

import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Event

from rmqclient import (
    ConsumeFrom,
    LocalTransactionState,
    Message,
    PushConsumer,
    ReceivedMessage,
    TransactionProducer,
)

NAMESRV_ADDR = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"


class BankA:
    """Its bookings are in SQLite. The transfer's number is the message's key."""

    def __init__(self, path: str, *, dies: bool = False):
        self._path = path
        self._dies = dies
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE IF NOT EXISTS transfers (number TEXT PRIMARY KEY, euros INTEGER)")

    def execute_local_transaction(self, message: Message) -> LocalTransactionState:
        with sqlite3.connect(self._path) as database:
            database.execute("INSERT INTO transfers VALUES (?, ?)", (message.keys, int(message.body)))
        if self._dies:
            os._exit(1)  # the broker does not learn that it was booked
        return LocalTransactionState.COMMIT

    def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        with sqlite3.connect(self._path) as database:
            found = database.execute("SELECT 1 FROM transfers WHERE number = ?", (message.keys[0],)).fetchone()
        return LocalTransactionState.COMMIT if found else LocalTransactionState.ROLLBACK


def send_and_die(path: str) -> None:
    with TransactionProducer.blocking(NAMESRV_ADDR, "bank-a", BankA(path, dies=True)) as producer:
        producer.send_in_transaction(Message("Transfers", b"100", keys="transfer-1"))


def main() -> None:
    path = str(Path(tempfile.mkdtemp(), "bank-a.db"))
    died = subprocess.run([sys.executable, __file__, NAMESRV_ADDR, path], check=False)
    print("bank A died:", died.returncode == 1)

    arrived = Event()

    def bank_b(message: ReceivedMessage) -> None:
        print("bank B books", message.keys[0], int(message.body))
        arrived.set()

    first = ConsumeFrom.FIRST_OFFSET
    back = TransactionProducer.blocking(NAMESRV_ADDR, "bank-a", BankA(path), topics=["Transfers"])
    with back, PushConsumer.blocking(NAMESRV_ADDR, "bank-b", {"Transfers": "*"}, bank_b, consume_from=first):
        arrived.wait()


if len(sys.argv) > 2:
    send_and_die(sys.argv[2])
else:
    main()
