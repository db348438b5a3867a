"""Side-by-side benchmarks. A table is measured in one run and read as ratios; absolute figures mean nothing."""
