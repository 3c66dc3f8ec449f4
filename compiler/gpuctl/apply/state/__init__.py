"""What is in the cluster of ours, and how it differs from what is wanted."""
