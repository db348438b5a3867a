"""Replay and dead-letter redrive: a frozen plan, a ledger on the driver's disk, permits for senders, and an audit.

Nothing here but ``sink`` and ``spark_engine`` needs Spark: ``local_engine`` does the same work in one process.
"""
