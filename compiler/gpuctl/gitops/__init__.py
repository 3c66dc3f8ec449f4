"""Manifests in git: the directory writer, comparison of revisions, the impact report. No network or cluster access."""
