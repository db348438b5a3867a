"""The recipe of docs/spark.md for executors that have no installed package, in a process of its own."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from sysconfig import get_path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

ROOT = Path(__file__).parents[3]
PACKAGES = ("rmqproto", "rmqclient", "rmqserver", "rmqreplay", "spark_tools")
TIMEOUT_S = 400

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = """
import importlib.util, sys
from pyspark.sql import SparkSession
assert importlib.util.find_spec("spark_tools") is None
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.addPyFile(sys.argv[2])
from spark_tools.source import RocketMQDataSource
spark.dataSource.register(RocketMQDataSource)
print(spark.read.format("rocketmq").option("path", sys.argv[1]).option("subscribe", "NormalTopic").load().count())
"""


def test_a_zip_and_a_registered_format(store: str, tmp_path: Path) -> None:
    packed = tmp_path / "rmq.zip"
    with zipfile.ZipFile(packed, "w") as files:
        for package in PACKAGES:
            for file in (ROOT / package).rglob("*.py"):
                files.write(file, file.relative_to(ROOT))
    python = os.path.realpath(sys.executable)  # without site: the packages' directory has no link to this source
    environment = os.environ | {"PYTHONPATH": get_path("purelib"), "PYSPARK_PYTHON": python}
    ran = subprocess.run(
        [python, "-S", "-c", PROGRAM, store, packed], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert ran.stdout.split() == ["15"], ran.stderr[-2000:]
