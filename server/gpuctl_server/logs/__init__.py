"""Logs that are followed: one stream of each container for all who follow it."""
