"""An exported model asked over HTTP: sessions, batches of requests, routes."""
