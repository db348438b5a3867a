"""``DecodeMessageId``: shows what a unique key says about the client that made it. Apache's tools have this class, but
mqadmin does not list it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, ClassVar

import typer

from rmqadmin.call import Call
from rmqadmin.core.results import TIME, Result, Row, doc
from rmqproto.errors import ProtocolError, UsageError
from rmqproto.message.message_id import UniqueId, parse_unique_id_untrusted


class UniqueIdRow(Row, frozen=True):
    message_id: Annotated[str, doc("the unique key", key=True)]
    client_addr: Annotated[str, doc("address of the machine that made it, as its client saw it")]
    process_id: Annotated[int, doc("its process, without what is above 65,535")]
    maker_hash: Annotated[int, doc("tells the makers of one process apart", wide=True)]
    born_ms: Annotated[int, TIME, doc("when, by its clock, if that was in the last month", vital=True)]
    counter: Annotated[int, doc("how many it had made before, modulo 65,536, from where it began", wide=True)]


class DecodedId(Result, frozen=True):
    """Who made a unique key, and when."""

    row_type: ClassVar[type[Row]] = UniqueIdRow
    message_id: str
    parts: UniqueId

    def rows(self) -> Sequence[UniqueIdRow]:
        return [
            UniqueIdRow(
                message_id=self.message_id,
                client_addr=self.parts.host,
                process_id=self.parts.process_id,
                maker_hash=self.parts.maker_hash,
                born_ms=self.parts.born_ms,
                counter=self.parts.counter,
            )
        ]

    def mqadmin_text(self) -> str:
        born = datetime.fromtimestamp(self.parts.born_ms // 1000)
        return f"ip={self.parts.host}date={born:%Y-%m-%d#%H:%M:%S}:{self.parts.born_ms % 1000:03}"


def decode_message_id(
    call: Call,
    message_id: Annotated[str, typer.Option("-i", "--messageId", metavar="ID", help="Unique key of a message.")],
) -> DecodedId:
    """Asks no server. The key holds no month, so it is taken to be less than a month old. An offset id, which brokers
    make, is for `msg get`.

    Examples:
      rmqadmin DecodeMessageId -i 7F000001000018B4AAC20000000A0000
      rmqadmin -o json DecodeMessageId -i 7F000001000018B4AAC20000000A0000
    """
    text = message_id.strip()
    try:
        return DecodedId(text, parse_unique_id_untrusted(text, call.now_ms()))
    except ProtocolError as error:
        raise UsageError(str(error), hint="`rmqadmin msg get` finds messages by any id.") from None
