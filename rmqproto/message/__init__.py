"""One message: as it is stored, its properties, flags and ids."""
