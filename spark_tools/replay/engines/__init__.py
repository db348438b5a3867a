"""What reads and sends the messages of a plan: this process, or Spark."""
