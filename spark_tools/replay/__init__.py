"""Replay and dead-letter redrive: a frozen plan, a ledger on the driver's disk, permits for senders, and an audit.

Nothing here but ``sink`` and ``waves`` needs Spark, so that plans, ledgers and permits are tested in milliseconds.
"""
