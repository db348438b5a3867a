"""The queue of a key beside Java's ``SelectMessageQueueByHash``, for other keys in every run: a key whose messages come
from two programs stays in one queue only if both choose alike."""

import json
import os
import subprocess
from pathlib import Path
from random import Random

import pytest

from rmqproto.java.java_hash import place_by_hash

from ..apache import java_command

pytestmark = pytest.mark.interop

COUNT = 10_000
TIMEOUT_S = 120
HASH_IS_LEAST = "polygenelubricants"
"""Its hash is the int that has no absolute value."""


def test_a_key_has_the_queue_that_java_chooses(tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(6), "big")
    random = Random(seed)
    cases = [(_key(random), random.randint(1, 64)) for _ in range(COUNT)]
    cases += [("", 8)] + [(HASH_IS_LEAST, count) for count in range(1, 17)]
    ran = subprocess.run(
        java_command(tmp_path, "QueueByHash", logback="tools"),
        input="".join(json.dumps(case) + "\n" for case in cases), text=True, stdout=subprocess.PIPE, check=True,
        timeout=TIMEOUT_S,
    )  # fmt: skip
    assert [place_by_hash(*case) for case in cases] == [int(line) for line in ran.stdout.split()], f"seed {seed}"


def _key(random: Random) -> str:
    alphabet = random.choice(["0123456789", "abcXYZ-_", "äß€日本", "😀𝄞a"])
    return "".join(random.choices(alphabet, k=random.randint(1, 30)))
