"""The live objects in a cluster, and their differences from the wanted ones."""
