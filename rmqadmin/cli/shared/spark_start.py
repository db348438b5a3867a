"""How the commands that need Spark start it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqadmin.cli.options.command_options import pairs
from rmqadmin.cli.options.replay_options import SparkOptions

if TYPE_CHECKING:
    from spark_tools.session import SessionOptions


def session_options(spark: SparkOptions) -> SessionOptions:
    from spark_tools.session import SessionOptions

    return SessionOptions(
        master=spark.master,
        cores=spark.cores,
        driver_memory=spark.driver_memory,
        java_home=spark.java_home,
        log_path=spark.spark_log,
        settings=pairs("--spark-conf", spark.spark_conf),
    )
