"""Crashes of the store, by the fault model of ``recording_disk.py``: every promise holds after recovery.

Each run is a workload of one seed. At every change of the disk, images are drawn and recovered. A failure names mode,
seed and number of the image; ``Run(mode, seed).check()`` reproduces it.
"""

import itertools

import pytest

from rmqserver.store.options import FlushMode

from .images import Run

IMAGES_QUICK = 100
IMAGES = 10_000
"""Images in each mode."""

IMAGES_CRASH = 500_000
PARTS = 20
SEEDS_PER_PART = 1_000_000


def check_images(mode: FlushMode, count: int, first_seed: int) -> None:
    for seed in itertools.count(first_seed):
        if count <= 0:
            return
        count -= Run(mode, seed, images_max=count).check()


@pytest.mark.parametrize("count", [IMAGES_QUICK, pytest.param(IMAGES, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("mode", FlushMode, ids=lambda mode: mode.name)
def test_every_promise_holds_on_every_image(mode: FlushMode, count: int) -> None:
    check_images(mode, count, 0)


@pytest.mark.crash
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("mode", FlushMode, ids=lambda mode: mode.name)
def test_every_promise_holds_on_a_million_images(mode: FlushMode, part: int) -> None:
    check_images(mode, IMAGES_CRASH // PARTS, (part + 1) * SEEDS_PER_PART)
