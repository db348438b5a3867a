"""Benchmarks of a single broker, most of them compared with Apache's."""
