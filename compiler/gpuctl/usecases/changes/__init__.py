"""Changes of a cluster, by a plan or by a name, directly or through a service."""
