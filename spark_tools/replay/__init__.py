"""Replay and dead-letter redrive: a frozen plan (``plans``), what makes each message go out once (``sending``), and
what reads and sends (``engines``). ``entry`` is the way in, ``job`` runs a plan to its audit.

Nothing here but ``engines/sink.py`` and ``engines/spark_engine.py`` needs Spark.
"""
