"""What the benchmarks share: cases, contenders in processes of their own, tables and results.

A script has its cases and calls `command.main`. Nothing is imported here: the workers of the peers
do not have what the rest needs.
"""
