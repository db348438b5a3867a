"""Templates of the answers that are rendered by hand: to a plain send, to a plain batch, to pulls and pops that found
messages. At 100,000 messages a second, building a header object and encoding it would cost as much as storing the
message. All other answers, and these with header codecs other than JSON, are rendered from their typed headers."""

from __future__ import annotations

import json
import struct

from rmqproto.codes import RESPONSE_FLAG, VERSION
from rmqproto.wire import header_binary
from rmqserver.remoting.answer import LANGUAGE

# total size u32 | header codec u8 (0, JSON), header size u24
HEAD = struct.Struct(">II")
"""The first eight bytes of a frame. The total size counts everything after itself."""

FOUND = (
    '{"code":0,"extFields":{"groupSysFlag":"%d","maxOffset":"%d","minOffset":"%d","nextBeginOffset":"%d",'
    f'"suggestWhichBrokerId":"%d","topicSysFlag":"%d"}},"flag":1,"language":"{LANGUAGE}","opaque":%d,"remark":"FOUND",'
    f'"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'
).encode()
"""To be filled with the group's sysFlag, the highest, the lowest and the next queue offset, the broker to ask next, the
topic's sysFlag, and the opaque."""


def found_pieces(group_sys_flag: int, topic_sys_flag: int) -> tuple[bytes, ...]:
    """FOUND of broker 0, cut where the highest, the lowest and the next queue offset and the opaque go."""
    filled = FOUND.decode().replace("%d", "%s") % (group_sys_flag, "\0", "\0", "\0", 0, topic_sys_flag, "\0")
    return tuple(filled.encode().split(b"\0"))


POP_FOUND = (
    '{"code":0,"extFields":{"popTime":"%d","invisibleTime":"%d","reviveQid":"%d","restNum":"%d","startOffsetInfo":"%s",'
    f'"msgOffsetInfo":"%s"}},"flag":1,"language":"{LANGUAGE}","opaque":%d,"remark":"FOUND",'
    f'"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'
)
"""To be filled with the members of ``PopAnswer`` except ``order_count_info``, and the opaque."""


def sent_pieces(region: str, trace_on: str) -> tuple[bytes, ...]:
    """What stands before message ids, queue id, queue offset, unique key and opaque, and at the end."""
    pieces = (
        f'{{"code":0,"extFields":{{"MSG_REGION":{json.dumps(region)},"TRACE_ON":"{trace_on}","msgId":"',
        '","queueId":"',
        '","queueOffset":"',
        '","transactionId":"',
        f'"}},"flag":1,"language":"{LANGUAGE}","opaque":',
        f',"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}',
    )
    return tuple(piece.encode() for piece in pieces)


def binary_sent_pieces(region: str, trace_on: str) -> tuple[bytes, ...]:
    """The same in the binary codec: names before the sizes of their values; then more ext fields, and the begin of the
    header, up to the size of all ext fields."""
    names = ("msgId", "queueId", "queueOffset", "transactionId")
    header = header_binary.encode(0, LANGUAGE, VERSION, 0, RESPONSE_FLAG, None, {})
    more = header_binary.encode(0, LANGUAGE, VERSION, 0, 0, None, {"MSG_REGION": region, "TRACE_ON": trace_on})
    return *(struct.pack(">h", len(name)) + name.encode() for name in names), more[len(header) :], header[:-4]


def sent(region: str, trace_on: str, store_host: bytes) -> bytes:
    """A template to be filled with the log offset, further message ids, each behind a comma, the queue id, the queue
    offset of the first, further ext fields, and the opaque. It has the quotes around values, so a further field begins
    with the last one of the value before it, and lacks its own."""
    pieces = (piece.decode().replace("%", "%%") for piece in sent_pieces(region, trace_on))
    before, queue_id, queue_offset, _, opaque, end = pieces
    return f"{before}{store_host.hex().upper()}%016X%b{queue_id}%d{queue_offset}%d%b{opaque}%d{end}".encode()
