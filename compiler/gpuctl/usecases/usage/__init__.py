"""Usage data: backends, periods, monthly reports, and workloads that hold GPUs."""
