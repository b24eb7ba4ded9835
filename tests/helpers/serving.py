"""A server in this process, and requests to it."""

import contextlib
import http.client
import json
import threading
import time

from xlnet.serving.server import http_server


@contextlib.contextmanager
def running(model, name, limits=None, host="127.0.0.1", hosts=()):
    """A server that answers until the end of the block."""
    server = http_server.Server(model, name, (host, 0), limits, hosts)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


def ask(server, method="POST", path="/v1/models/m:predict", body=None, headers=None):
    """(status, what was answered)."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request(method, path, body if body is None or isinstance(body, (str, bytes))
                       else json.dumps(body), headers or {})
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    is_json = answer.headers["Content-Type"] == "application/json"
    return answer.status, json.loads(content) if is_json else content


def wait_until(condition):
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("not in time")
