"""Compare documents with git revisions, directories of manifests, and the cluster."""
