"""A message: its stored form, properties, flags and ids."""
