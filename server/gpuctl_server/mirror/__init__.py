"""A copy of what is asked for most, kept up to date by watches, so that a question costs the API server nothing."""
