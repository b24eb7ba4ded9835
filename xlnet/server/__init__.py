"""Serves a model over HTTP: the application, its limits, turns of the network, and a page."""
