"""`examples/deploy/nginx.conf` in nginx: a page, a prediction, a stream, what is too large."""

import http.client
import json
import os
import shutil
import socket
import subprocess
import time

import pytest
from helpers.paths import ROOT
from helpers.serving import Echo, running, wait_until

pytestmark = pytest.mark.slow

CONFIGURATION = (ROOT / "examples/deploy/nginx.conf").read_text(encoding="utf-8")
NAME = "models.example.org"
PATH = os.environ["PATH"] + ":/usr/sbin"


class Slow(Echo):
    def stream(self, call, row):
        for number in range(2):
            yield {"text": "a"}
            time.sleep(1)


def command(directory, port, target):
    """Starts nginx with the page's configuration, on other ports."""
    block = CONFIGURATION.replace("127.0.0.1:8501", f"127.0.0.1:{target}")
    block = block.replace("listen 80;", f"listen 127.0.0.1:{port};")
    paths = ""
    for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):
        paths += f"{name}_temp_path {directory}/{name}; "
    (directory / "nginx.conf").write_text(
        f"daemon off; pid {directory}/pid; error_log {directory}/error.log; events {{}}\n"
        f"http {{ access_log off; {paths}\n{block}}}"
    )
    return ["nginx", "-c", directory / "nginx.conf", "-e", directory / "error.log"]


@pytest.mark.skipif(not shutil.which("nginx", path=PATH), reason="apt install nginx")
def test_the_configuration_of_the_page(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def ask(method, path, body=None, site="same-origin"):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        headers = {"Host": NAME, "Sec-Fetch-Site": site}
        connection.request(method, path, body and json.dumps(body), headers)
        return connection.getresponse()

    def answers():
        try:
            return ask("GET", "/health").status == 200
        except OSError:
            return False

    path = "/v1/models/m:predict"
    with running(Slow(), "m") as server:
        how = dict(stderr=subprocess.DEVNULL, env=dict(os.environ, PATH=PATH))
        started = subprocess.Popen(command(tmp_path, port, server.port), **how)
        try:
            wait_until(answers)
            assert b"<script src" in ask("GET", "/").read()
            found = ask("POST", path, {"instances": ["a"]})
            assert found.status == 200
            assert json.load(found)["predictions"][0]["text"] == "a"
            assert ask("POST", path, {"instances": ["a"]}, "cross-site").status == 403
            assert ask("POST", path, {"instances": ["a" * (1 << 21)]}).status == 413
            began = time.monotonic()
            asked = dict(signature_name="generate", instances=["a"], stream=True)
            stream = ask("POST", path, asked)
            assert b'"text"' in stream.readline() and time.monotonic() - began < 1
            assert b'"text"' in stream.readline() and time.monotonic() - began > 1
        finally:
            started.terminate()
            started.wait()
