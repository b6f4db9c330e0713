"""Benchmarks; their dated runs are in runs/."""
