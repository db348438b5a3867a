"""Replay and redrive of messages in one process: plan, permits, ledger, delivery, audit. Needs neither Spark nor a
terminal."""
