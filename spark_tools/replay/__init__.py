"""Replay and redrive at volume: the engine that runs a job of ``rmqreplay`` on Spark. ``entry`` is the entry point."""
