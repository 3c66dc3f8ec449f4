"""Following logs: one stream of each container, shared by all its followers."""
