"""Inputs of the rollup: holdings, capacities and quotas from the API server, measurements from Prometheus."""
