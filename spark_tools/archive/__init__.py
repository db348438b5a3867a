"""The archive of topics in Parquet, before retention deletes them. ``archive_run`` is the entry point."""
