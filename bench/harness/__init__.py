"""What all benchmarks share: servers, load, rows, the table and single figures."""
