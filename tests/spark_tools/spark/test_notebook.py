"""What docs/spark.md says of notebooks, in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 400

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NOTEBOOK = """
import sys
from spark_tools.session import SessionOptions, notebook_session
spark = notebook_session(SessionOptions(settings={"spark.driver.extraJavaOptions": "-Dmine=1"}))
assert notebook_session() is spark
reader = spark.read.format("rocketmq").option("path", sys.argv[1])
print(reader.option("subscribe", "NormalTopic").load().count())
try:
    reader.option("endingOffset", "x").load()
except Exception as error:
    print(str(error).strip())
stream = spark.readStream.format("rocketmq").options(nameServer="127.0.0.1:1", subscribe="T", readTimeoutMs="0").load()
try:
    stream.writeStream.format("noop").option("checkpointLocation", sys.argv[2]).start().awaitTermination()
except Exception as error:
    print(str(error).strip())
print(spark.conf.get("spark.driver.extraJavaOptions"))
"""


def test_a_notebook_has_the_archive_of_classes_and_short_errors(store: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", NOTEBOOK, store, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    count, *error, java_options = ran.stdout.splitlines()
    assert count == "15"
    assert "did you mean endingOffsets" in "".join(error)
    assert "cannot connect to 127.0.0.1:1" in "".join(error)
    assert "Traceback" not in "".join(error)
    assert "spark-classes" in java_options, "made at its end, or used"
    assert "-Dmine=1" in java_options
