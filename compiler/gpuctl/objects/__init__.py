"""Kubernetes objects as data: kinds and keys, gpuctl's labels and annotations, quantities, and the state of workloads.

The lowest layer: every other package may import it, and it imports none of them.
"""
