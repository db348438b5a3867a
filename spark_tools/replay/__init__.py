"""Replay and dead-letter redrive: frozen plans (``plans``), sending each message once (``sending``), and the engines
that read and send (``engines``). ``entry`` is the entry point, ``job`` runs a plan up to its audit.

Only ``engines/sink.py`` and ``engines/spark_engine.py`` need Spark.
"""
