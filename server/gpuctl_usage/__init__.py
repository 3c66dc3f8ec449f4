"""Who held the GPUs of a cluster, and what the GPUs did: collected, kept, added up and answered."""
