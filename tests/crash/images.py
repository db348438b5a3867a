"""Runs a workload, and after every change of the disk checks images of a crash at that moment. Some of them are crashed
again while they recover."""

import dataclasses
import itertools
from random import Random

from rmqserver.store.disk.config_files import ConfigFiles
from rmqserver.store.message_store import DEFAULT_PARTS, MessageStore, StoreParts
from rmqserver.store.options import FlushMode
from tests.support.clock import Clock

from .invariants import Violation, check, promise
from .recording_disk import Loss, RecordingDisk
from .workload import QUEUES, ROOT, Workload, options_for

STEPS_PER_RUN = 8
CRASHED_AGAIN = 0.1
"""Share of the images whose recovery is crashed, too."""

QUEUES_REMOVED = 0.03
"""Share of the steps after which ``consumequeue/`` is removed."""

FILES_REMOVED = 0.2
"""Share of the images in which a queue has lost its last file."""

LOSSES = (Loss.NOTHING, Loss.EVERYTHING, Loss.TORN, Loss.NAMES, Loss.DATA, Loss.SOME)
WEIGHTS = (1, 1, 3, 1, 1, 5)


@dataclasses.dataclass(slots=True)
class Run:
    """One workload of one seed. ``image_count`` is the number of images checked."""

    mode: FlushMode
    seed: int
    images_max: int = 1 << 62
    images_per_moment: int = 2
    disk: RecordingDisk = dataclasses.field(default_factory=RecordingDisk)
    parts: StoreParts = DEFAULT_PARTS
    tables: type[ConfigFiles] = ConfigFiles
    image_count: int = 0
    violation: Violation | None = None

    def check(self) -> int:
        """Returns how many images were checked. Raises Violation, which says how to reproduce it."""
        workload = Workload(self.mode, self.seed, self.disk, self.parts, self.tables)
        rng, removal_rng = Random(self.seed), Random(self.seed + 1)

        def crash() -> None:
            for _ in range(self.images_per_moment):
                if self.image_count < self.images_max and self.violation is None:
                    self._check_image(workload, rng)
            workload.meanwhile()

        self.disk.on_change = crash
        try:
            workload.start()
            for _ in range(STEPS_PER_RUN):
                if self.image_count < self.images_max and self.violation is None:
                    workload.step()
                if removal_rng.random() < QUEUES_REMOVED:
                    workload.remove_queues()
            workload.stop()
        finally:
            self.disk.on_change = None
        if self.violation is not None:
            raise self.violation
        return self.image_count

    def _check_image(self, workload: Workload, rng: Random) -> None:
        (loss,) = rng.choices(LOSSES, WEIGHTS)
        seed = rng.getrandbits(32)
        self.image_count += 1
        promised = promise(workload.ledger, self.disk, self.mode, loss)
        image = self.disk.image(loss, Random(seed))
        more = Random(seed + 1)
        try:
            if more.random() < FILES_REMOVED:
                remove_last_file(image, more)
            if more.random() < CRASHED_AGAIN:
                image = crashed_again(image, self.mode, more)
            check(image, promised, self.mode, more)
        except Violation as error:
            about = f"[{self.mode.name}, seed {self.seed}, image {self.image_count}, {loss.name}]"
            self.violation = Violation(f"{error} {about}").with_traceback(error.__traceback__)


def remove_last_file(image: RecordingDisk, rng: Random) -> None:
    """Removes the last file of one queue."""
    queues = [
        (topic, queue_id) for topic, queue_id in QUEUES if image.listdir(f"{ROOT}/consumequeue/{topic}/{queue_id}")
    ]
    if queues:
        topic, queue_id = rng.choice(queues)
        directory = f"{ROOT}/consumequeue/{topic}/{queue_id}"
        image.unlink(f"{directory}/{image.listdir(directory)[-1]}")


def crashed_again(image: RecordingDisk, mode: FlushMode, rng: Random) -> RecordingDisk:
    """The image left if a power cut or a kill interrupts the recovery of ``image``, or the work that recovery defers,
    after any of its changes."""
    found = image
    moments = itertools.count(1)

    def crash() -> None:
        nonlocal found
        if rng.random() < 1 / next(moments):  # each moment is equally likely
            found = image.image(rng.choice((Loss.NOTHING, Loss.EVERYTHING, Loss.SOME, Loss.TORN)), rng)

    image.on_change = crash
    store = MessageStore(ROOT, options_for(mode), image, clock_ms=Clock(), background=False)
    try:
        store.open()
        while store.dispatch_some():
            pass
    except Exception as error:
        raise Violation(f"the store does not open: {error!r}") from error
    image.on_change = None
    store.abandon()
    return found
