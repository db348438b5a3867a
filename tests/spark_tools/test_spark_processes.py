"""Looking for Spark's processes among all others of the machine."""

import os
import subprocess
import sys

from tests.spark_tools.spark.spark_processes import python_workers


def test_arguments_of_others_need_not_be_text() -> None:
    """Another test's process with such arguments used to end the search, and then no writer was killed."""
    with subprocess.Popen([sys.executable, "-c", "input()", b"\xff\xfe"], stdin=subprocess.PIPE) as other:
        assert python_workers(os.getpid()) == []
        other.communicate(b"\n")
