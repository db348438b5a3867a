"""Work that runs beside a test."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beside(work: Callable[[threading.Event], object]) -> Iterator[None]:
    """Runs ``work`` in a thread of its own during the block. At the block's end the event is set, and the thread is
    awaited."""
    has_ended = threading.Event()
    thread = threading.Thread(target=work, args=(has_ended,))
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()
