"""Topics as streams for Spark."""
