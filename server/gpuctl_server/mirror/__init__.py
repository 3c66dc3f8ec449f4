"""A copy of the objects that are requested most, kept up to date by watches, so that reads need no API request."""
