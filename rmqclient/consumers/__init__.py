"""The consumers that programs use: what each asks its brokers, and what a program tells it."""
