"""How fast the loop itself can be: a bare send/batch/pull server on trio. It is neither a broker nor a style to copy.

    python bench/ceiling.py PORT DIR        prints its process id once it serves

It parses frames and headers, checks topic, queue and size, assigns offsets, encodes stored records with their CRC,
appends them to preallocated commit log files, keeps consume queue units in memory and serves pulls from a read-only
mapping. It has no index, statistics, long polls, recovery or limits: those explain how far a broker is below its
figures.

The shape that makes it fast: one trio task waits on one epoll set; each wake-up reads every ready connection, handles
all complete frames by plain calls, then makes one append and one send for each connection, and gives trio a turn at
least every millisecond.
"""

import gc
import mmap
import os
import select
import socket
import struct
import sys
import time
import zlib

import msgspec
import trio

PORT = int(sys.argv[1])
DIR = sys.argv[2]
SEGMENT = 1 << 30
BUDGET_S = 0.001

# the record of rmqproto/message/record.py with IPv4 hosts
RECORD = struct.Struct(">iiIiiqqiq8sq8siqi")
UNIT = struct.Struct(">qiq")  # log offset, size, tag hash
BATCH_ITEM = struct.Struct(">iiIii")
STORE_HOST = b"\x7f\0\0\1\0\0\x2a\x9f"
STAMP = b'"flag":1,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":513}'
SENT = (
    b'{"code":0,"extFields":{"queueId":"%d","TRACE_ON":"true","MSG_REGION":"DefaultRegion",'
    b'"msgId":"7F00000100002A9F%016X","queueOffset":"%d"},' + STAMP
)
FOUND = (
    b'{"code":0,"extFields":{"suggestWhichBrokerId":"0","nextBeginOffset":"%d","minOffset":"0","maxOffset":"%d"},'
    + STAMP
)
OTHER = b'{"code":%d,"extFields":{"offset":"%d"},' + STAMP


class SendFields(msgspec.Struct, gc=False):
    b: str
    e: int
    g: int
    f: int = 0
    h: int = 0
    i: str = ""
    j: int = 0


class Send(msgspec.Struct, gc=False):
    opaque: int
    extFields: SendFields


class PullFields(msgspec.Struct, gc=False, frozen=True):
    topic: str = ""
    queueId: int = 0
    queueOffset: int = 0
    maxMsgNums: int = 32


class Pull(msgspec.Struct, gc=False):
    code: int
    opaque: int
    extFields: PullFields = PullFields()


decode_send = msgspec.json.Decoder(Send, strict=False).decode
decode_pull = msgspec.json.Decoder(Pull, strict=False).decode


class Topic:
    def __init__(self, name: str, queues: int = 4):
        self.tail = bytes([len(name)]) + name.encode()
        self.next = [0] * queues
        self.units = [bytearray() for _ in range(queues)]


class Log:
    def __init__(self) -> None:
        self.base = -SEGMENT
        self.maps: list[memoryview] = []
        self.parts: list[bytes] = []
        self.roll()

    def roll(self) -> None:
        self.base += SEGMENT
        self.fd = os.open(f"{DIR}/{self.base:020d}", os.O_RDWR | os.O_CREAT, 0o644)
        os.posix_fallocate(self.fd, 0, SEGMENT)
        self.maps.append(memoryview(mmap.mmap(self.fd, SEGMENT, prot=mmap.PROT_READ)))
        self.written = self.end = 0  # within the segment: written or about to be, and allotted to records

    def room_for(self, size: int) -> None:
        if self.end + size > SEGMENT - 8:
            self.commit()
            self.roll()

    def commit(self) -> None:
        if self.parts:
            os.pwrite(self.fd, b"".join(self.parts), self.written)
            self.parts.clear()
            self.written = self.end


topics: dict[str, Topic] = {}
log = Log()


def append(
    topic: Topic,
    queue: int,
    flag: int,
    sys_flag: int,
    born: int,
    born_host: bytes,
    now: int,
    reconsume: int,
    body: bytes,
    properties: bytes,
) -> tuple[int, int]:
    size = RECORD.size + len(body) + len(topic.tail) + 2 + len(properties)
    log.room_for(size)
    at, offset = log.base + log.end, topic.next[queue]
    topic.next[queue] = offset + 1
    log.parts += (
        RECORD.pack(
            size,
            -626843481,
            zlib.crc32(body) & 0x7FFFFFFF,
            queue,
            flag,
            offset,
            at,
            sys_flag,
            born,
            born_host,
            now,
            STORE_HOST,
            reconsume,
            0,
            len(body),
        ),
        body,
        topic.tail,
        len(properties).to_bytes(2, "big"),
        properties,
    )
    log.end += size
    topic.units[queue] += UNIT.pack(at, size, 0)
    return at, offset


def handle(view: memoryview, length: int, born_host: bytes, out: list[bytes]) -> int:
    """Answers every complete frame in view[:length]. Returns how many bytes were used."""
    o, now = 0, time.time_ns() // 1_000_000
    while length - o >= 8:
        total, mark = struct.unpack_from(">II", view, o)
        end = o + 4 + total
        if end > length:
            break
        body_at = o + 8 + (mark & 0xFFFFFF)
        header, code = view[o + 8 : body_at], bytes(view[o + 16 : o + 20])  # after {"code":
        if code == b"310," or code == b"320,":
            request = decode_send(header)
            x = request.extFields
            topic = topics.get(x.b) or topics.setdefault(x.b, Topic(x.b))
            if code == b"310,":
                appended = append(
                    topic, x.e, x.h, x.f, x.g, born_host, now, x.j, bytes(view[body_at:end]), x.i.encode()
                )
                reply = SENT % (x.e, *appended, request.opaque)
            else:
                batch, p, first = bytes(view[body_at:end]), 0, None
                while p < len(batch):
                    item, _, _, flag, n = BATCH_ITEM.unpack_from(batch, p)
                    at = append(
                        topic,
                        x.e,
                        flag,
                        x.f,
                        x.g,
                        born_host,
                        now,
                        0,
                        batch[p + 20 : p + 20 + n],
                        batch[p + 22 + n : p + item],
                    )
                    first, p = first or at, p + item
                reply = SENT % (x.e, *(first or (0, 0)), request.opaque)
            out += (struct.pack(">II", len(reply) + 4, len(reply)), reply)
        else:
            wanted = decode_pull(header)
            y = wanted.extFields
            topic = topics.get(y.topic) or Topic(y.topic)
            high = topic.next[y.queueId]
            n = min(y.maxMsgNums, high - y.queueOffset)
            if wanted.code == 11 and n > 0:
                log.commit()
                runs: list[list[int]] = []
                for at, size, _ in UNIT.iter_unpack(
                    topic.units[y.queueId][y.queueOffset * 20 : (y.queueOffset + n) * 20]
                ):
                    if runs and runs[-1][1] == at:
                        runs[-1][1] += size
                    else:
                        runs.append([at, at + size])
                found = [bytes(log.maps[a // SEGMENT][a % SEGMENT : a % SEGMENT + b - a]) for a, b in runs]
                reply = FOUND % (y.queueOffset + n, high, wanted.opaque)
                out += (struct.pack(">II", len(reply) + 4 + sum(map(len, found)), len(reply)), reply, *found)
            else:
                reply = OTHER % (0 if wanted.code == 30 else 19, high, wanted.opaque)
                out += (struct.pack(">II", len(reply) + 4, len(reply)), reply)
        o = end
    return o


class Connection:
    __slots__ = ("born_host", "rest", "sock", "unsent")

    def __init__(self, sock: socket.socket):
        self.sock, self.rest, self.unsent = sock, b"", b""
        host, port = sock.getpeername()
        self.born_host = socket.inet_aton(host) + port.to_bytes(4, "big")


async def main() -> None:  # noqa: C901  # one function on purpose: nothing but the loop
    listener = socket.create_server(("127.0.0.1", PORT), backlog=1024)
    listener.setblocking(False)
    poller = select.epoll()
    poller.register(listener.fileno(), select.EPOLLIN)
    connections: dict[int, Connection] = {}
    buffer = bytearray(4 << 20)
    view = memoryview(buffer)
    events: list[tuple[int, int]] = []
    print(os.getpid(), flush=True)
    while True:
        if events:
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.wait_readable(poller.fileno())
        turn_ends = time.perf_counter() + BUDGET_S
        while time.perf_counter() < turn_ends:
            events = events or poller.poll(0)
            if not events:
                break
            answers: list[tuple[Connection, list[bytes]]] = []
            done = 0
            for fd, what in events:
                done += 1
                c = connections.get(fd)
                if c is None:
                    sock, _ = listener.accept()
                    sock.setblocking(False)
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    connections[sock.fileno()] = Connection(sock)
                    poller.register(sock.fileno(), select.EPOLLIN)
                    continue
                if c.unsent:  # do not read from a peer that does not read its answers
                    if what & select.EPOLLOUT:
                        c.unsent = c.unsent[c.sock.send(c.unsent) :]
                        if not c.unsent:
                            poller.modify(fd, select.EPOLLIN)
                    continue
                kept = len(c.rest)
                buffer[:kept] = c.rest
                try:
                    got = c.sock.recv_into(view[kept : kept + (1 << 19)])
                except OSError:
                    got = 0
                if not got:
                    poller.unregister(fd)
                    connections.pop(fd).sock.close()
                    continue
                out: list[bytes] = []
                used = handle(view, kept + got, c.born_host, out)
                c.rest = bytes(view[used : kept + got])
                if out:
                    answers.append((c, out))
                if time.perf_counter() > turn_ends:
                    break
            events = events[done:]
            log.commit()
            for c, out in answers:
                data = b"".join(out)
                try:
                    sent = c.sock.send(data)
                except BlockingIOError:
                    sent = 0
                except OSError:
                    continue
                if sent < len(data):
                    c.unsent = data[sent:]
                    poller.modify(c.sock.fileno(), select.EPOLLOUT)


gc.freeze()
gc.set_threshold(100_000, 50, 50)
trio.run(main)
