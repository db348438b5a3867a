"""``python -m rmqserver.with_parent …``: ``rmqserver …`` that gets SIGTERM when its parent process dies, even if the
parent is killed."""

from __future__ import annotations

import ctypes
import signal
import sys

from rmqserver.__main__ import main

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    sys.exit(main())
