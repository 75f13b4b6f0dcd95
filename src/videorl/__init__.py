"""videorl: fully-asynchronous reinforcement learning for video language models."""
