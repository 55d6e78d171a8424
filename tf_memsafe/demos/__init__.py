"""Naive programs on real data, each run under a memory limit with `python -m`."""
