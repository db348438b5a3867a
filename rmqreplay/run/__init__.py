"""The engines that read and send the messages of a plan: this process, or Spark."""
