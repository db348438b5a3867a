"""Load on a cluster: what ``bench`` sends and receives in its own processes, and the latencies it measures."""
