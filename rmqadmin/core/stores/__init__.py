"""What commands say of a store directory: the files of a broker that is stopped. They are only read."""
