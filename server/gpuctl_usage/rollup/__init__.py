"""Hours rolled up out of who held GPUs, which GPUs there were and what they did; days out of hours. It is all pure."""
