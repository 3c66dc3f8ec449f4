"""GPU usage of a cluster: which pods held GPUs and how busy the GPUs were; collected, stored, rolled up and queried."""
