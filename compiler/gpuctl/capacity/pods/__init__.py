"""Nodes, pods and workloads of a snapshot and of documents, in the scheduler's terms."""
