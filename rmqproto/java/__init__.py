"""The parts of Java and its libraries that Apache uses: hashes, numbers, properties files."""
