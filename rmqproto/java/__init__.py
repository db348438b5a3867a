"""What Apache has from Java and its libraries: hashes, numbers, properties files."""
