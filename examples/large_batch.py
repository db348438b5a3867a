"""Many small messages at once: ``split`` makes batches of the size that the broker permits, and names a message that is
too large for any. A batch is stored whole or not at all, and costs the broker little more than one message."""

import sys
import time

from rmqclient import Message, Producer

NAMESRV_ADDR = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
COUNT = 20_000

messages = [Message("Readings", b"sensor %d" % number, keys=[f"reading-{number}"]) for number in range(COUNT)]
with Producer.blocking(NAMESRV_ADDR, "sensors") as producer:
    began_s = time.monotonic()
    results = [producer.send_batch(batch, timeout_s=60) for batch in producer.split(messages)]
    took_s = time.monotonic() - began_s
stored = sum(len(result.message_id.split(",")) for result in results)
print(stored, "messages in", len(results), "batches")
print(f"{stored / took_s:,.0f} messages a second", file=sys.stderr)
