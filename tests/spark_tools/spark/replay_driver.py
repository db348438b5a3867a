"""The driver of one replay, as a program: its argument is JSON with the ledger directory and whether to protect."""

from __future__ import annotations

import json
import os
import sys

from spark_tools.replay.job import RunOptions, run_replay
from spark_tools.replay.plan import load_plan
from spark_tools.replay.waves import Waves
from spark_tools.session import SessionOptions, spark_session

# Short batches and a short time-out: more requests to break, and less to wait for.
FAULT_RUN = {"send_timeout_ms": 1500, "batch_messages": 10, "in_flight": 2}
QUICK_JVM = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}


def main() -> None:
    arguments = json.loads(sys.argv[1])
    plan = load_plan(arguments["directory"])
    assert plan is not None
    settings = SessionOptions(master="local[2,4]", settings=QUICK_JVM)
    with spark_session(settings) as spark:
        options = RunOptions(protected=arguments["protected"], audit=False, **FAULT_RUN)
        result = run_replay(plan, arguments["directory"], Waves(spark, 2), options)
    print(json.dumps({"stored": result.stored, "found": result.found}))


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())
    main()
