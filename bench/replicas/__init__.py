"""Sets of brokers: what replication costs, and what clients notice when a master is lost."""
