"""What ``rmqadmin shell`` is made of. Lines that nobody types need no prompt_toolkit."""
