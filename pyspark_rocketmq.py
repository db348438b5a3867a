"""Spark imports every top-level module whose name starts with ``pyspark_`` when it meets an unknown format, in every
session of every user. So this module holds only the name under which Spark looks for the source."""

from spark_tools.source import RocketMQDataSource as DefaultSource

__all__ = ["DefaultSource"]
