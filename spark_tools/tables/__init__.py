"""What a cluster or a store tells about itself, as rows: ``.option("table", …)``."""
