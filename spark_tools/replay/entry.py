"""A replay at volume: what ``rmqreplay`` plans, permits and audits, read and sent by Spark.

from rmqreplay.plans.request import ReplayRequest
from spark_tools.replay.entry import replay

outcome = replay(ReplayRequest(name_server="127.0.0.1:9876", dlq_group="billing"), execute=True)
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from rmqreplay.plans.plan import Plan
from rmqreplay.plans.planning import check_source
from rmqreplay.plans.request import ReplayRequest
from rmqreplay.run.engine import Engine
from rmqreplay.run.entry import ReplayOutcome, Runner, carry_out
from spark_tools.session import SessionOptions, check_installed, errors_name_log, find_java, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS_PER_CORE = 2

SHORT_WORK_MAX = 1_000_000
"""Up to this many offsets, Java's optimizing compiler costs a job more than it saves."""


def replay(
    request: ReplayRequest | None = None,
    runner: Runner = Runner(),
    session: SessionOptions = SessionOptions(),
    *,
    execute: bool = False,
    resume: bool = False,
    job: str | None = None,
    spark: SparkSession | None = None,
) -> ReplayOutcome:
    """As ``redrive``, with Spark. ``spark``: a running session, as in a notebook; None starts one by ``session``, as
    late as possible, and stops it. SparkMissingError before anything happens."""
    check_installed()
    if spark is None:
        find_java(session.java_home)
    given = None if spark is None else nullcontext(spark)
    return carry_out(
        request,
        runner,
        lambda plan: _spark_engine(plan, runner, session, given),
        lambda plan: check_source(plan, runner.run.cluster),
        execute=execute,
        resume=resume,
        job=job,
    )


@contextmanager
def _spark_engine(
    plan: Plan, runner: Runner, options: SessionOptions, given: AbstractContextManager[SparkSession] | None
) -> Iterator[Engine]:
    """A Spark engine in the session ``given``, or in one that ends with the context. Errors name Spark's log."""
    started = time.monotonic()
    if given is None:
        runner.hooks.on_stage("starting Spark, which takes some seconds")
    options = replace(options, is_short=plan.offset_count <= SHORT_WORK_MAX)
    with given or spark_session(options, runner.hooks.on_stage) as session:
        from spark_tools.replay.spark_engine import SparkEngine

        if given is None:
            runner.hooks.on_stage(f"Spark is up after {time.monotonic() - started:.1f} s, and starts its first job")
        partitions = session.sparkContext.defaultParallelism * PARTITIONS_PER_CORE
        with errors_name_log(session):
            yield SparkEngine(session, partitions, runner.run)
