"""The parts of ``rmqadmin shell``. Lines that are not typed do not need prompt_toolkit."""
