"""Serves a model over HTTP: connections, routes, batches of requests, and a page."""
