"""Policies for idle jobs and for notebooks, and the webhook that they report to."""
