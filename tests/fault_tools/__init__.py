"""Tools for failure tests: a proxy that fails on request, processes that start fast, fast reads of a cluster."""
