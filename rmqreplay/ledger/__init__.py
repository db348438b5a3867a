"""What a job has sent, on disk, and what that says of messages that are found again."""
