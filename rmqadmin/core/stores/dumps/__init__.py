"""What ``store dump`` shows of a store directory: a module a part."""
