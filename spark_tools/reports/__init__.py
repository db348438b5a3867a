"""Reports over a cluster or a store, made by Spark of messages and tables."""
