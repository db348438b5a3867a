"""RocketMQ messages as Spark data, and a replay that neither loses nor doubles a message. Imports without Spark
installed: what needs pyspark, pyarrow or numpy is imported inside the functions and modules that only a session
reaches."""
