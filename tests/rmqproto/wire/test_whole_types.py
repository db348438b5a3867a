"""Types that several threads decode for the first time at once."""

import subprocess
import sys

DECODING = """
import sys
from threading import Barrier, Thread

from msgspec import defstruct

from rmqproto.wire.fastjson import loads_untrusted

sys.setswitchinterval(1e-6)


def decode(type, begin):
    begin.wait()
    assert loads_untrusted(b'{"one": {"at": 1}, "many": [{"at": 2}], "named": {"x": {"at": 3}}}', type).one.at == 1


for _ in range(100):
    inner = defstruct("Inner", [("at", int)])
    outer = defstruct("Outer", [("one", inner), ("many", list[inner]), ("named", dict[str, inner])])
    begin = Barrier(8)
    threads = [Thread(target=decode, args=(outer, begin)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_that_decode_a_type_for_the_first_time_do_not_end_the_process() -> None:
    """They used to end it by SIGSEGV, at about the third of these hundred types."""
    assert subprocess.run([sys.executable, "-c", DECODING], check=False).returncode == 0
