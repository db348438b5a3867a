"""Spark imports every top-level module whose name starts with ``pyspark_`` when it meets an unknown format, in every
session of every user: all that may be here is the name under which it looks for the source."""

from spark_tools.source import RocketMQDataSource as DefaultSource

__all__ = ["DefaultSource"]
