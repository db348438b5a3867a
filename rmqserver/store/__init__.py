"""Apache RocketMQ's files on disk: commit log, consume queues, index, checkpoint, configuration tables.

It knows no trio and no socket: the broker, the offline commands and Spark's executors all open the same
``MessageStore``.
"""
