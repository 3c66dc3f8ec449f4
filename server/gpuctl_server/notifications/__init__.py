"""Notifications (`job.notify`): events of jobs, posted to the webhooks of the platform's channels."""
