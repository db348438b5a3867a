"""RocketMQ messages as Spark data, and a replay that neither loses nor doubles a message. It can be imported without
Spark: pyspark, pyarrow and numpy are imported only in functions and modules that a session uses."""
