"""What is gathered: who holds GPUs, from the API server; what the GPUs do, from Prometheus."""
