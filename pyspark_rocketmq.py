"""When Spark meets an unknown format, it imports every top-level module whose name starts with ``pyspark_``, in every
session of every user. So this module only contains the name under which Spark looks for the source."""

from spark_tools.source import RocketMQDataSource as DefaultSource

__all__ = ["DefaultSource"]
