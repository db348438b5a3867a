"""Load on a cluster: what ``bench`` sends and receives, by processes of its own, and what that says of latencies."""
