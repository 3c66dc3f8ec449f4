"""Nodes, pools, labels and GPUs."""
