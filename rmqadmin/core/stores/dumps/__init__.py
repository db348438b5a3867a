"""What ``store dump`` shows of a store directory, one module per part."""
