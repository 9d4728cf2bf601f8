"""Benchmark of convt3d against cuDNN and its other peers in PyTorch: ``python -m convt3d.benchmark --help``."""
