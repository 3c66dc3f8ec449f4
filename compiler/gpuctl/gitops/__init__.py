"""Manifests in git: room for the directory writer, comparison of revisions and the impact report."""
