"""Side-by-side benchmarks: all of a table is measured in one run and read as ratios; absolute figures mean nothing."""
