"""Shared by all benchmarks: servers, load, rows, the table and single figures."""
