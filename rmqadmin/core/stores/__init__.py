"""What commands report about a store directory: the files of a stopped broker. They are only read."""
