"""What the dashboard saw, in a file, and looked at again."""
