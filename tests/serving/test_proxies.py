"""The proxies of the serving page, Debian's nginx and Caddy: a page, a prediction, a stream."""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import time

import pytest
from helpers.paths import ROOT
from helpers.serving import Echo, running, wait_until

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "tutorials" / "serving.md").read_text(encoding="utf-8")
NAME = "models.example.org"


class Slow(Echo):
    def cost(self, call, rows, budget):
        return 1

    def stream(self, call, row):
        for number in range(2):
            yield {"number": number, "text": "a"}
            time.sleep(1)


def command(proxy, directory, port, target):
    """Starts the proxy with the page's configuration, on other ports."""
    (block,) = re.findall(f"```{proxy}\n(.*?)```", PAGE, re.DOTALL)
    block = block.replace("127.0.0.1:8501", f"127.0.0.1:{target}")
    if proxy == "caddy":
        (directory / "Caddyfile").write_text(
            "{\n admin off\n}\n" + block.replace(":80 {", f":{port} {{")
        )
        return ["caddy", "run", "--config", str(directory / "Caddyfile"), "--adapter", "caddyfile"]
    (directory / "nginx.conf").write_text(
        "daemon off; pid {d}/pid; error_log {d}/error.log; events {{}}\n"
        "http {{ access_log off; client_body_temp_path {d}/b; proxy_temp_path {d}/p;\n"
        "fastcgi_temp_path {d}/f; uwsgi_temp_path {d}/u; scgi_temp_path {d}/s;\n"
        "{block}}}".format(
            **dict(d=directory, block=block.replace("listen 80;", f"listen 127.0.0.1:{port};"))
        )
    )
    return ["nginx", "-c", str(directory / "nginx.conf"), "-e", str(directory / "error.log")]


@pytest.mark.parametrize("proxy", ["nginx", "caddy"])
def test_the_configuration_of_the_page(proxy, tmp_path):
    if not shutil.which(proxy, path=os.environ["PATH"] + ":/usr/sbin"):
        pytest.skip("apt install " + proxy)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def ask(method, path, body=None, origin="http://" + NAME):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request(
            method, path, body and json.dumps(body), {"Host": NAME, "Origin": origin}
        )
        return connection.getresponse()

    def answers():
        try:
            return ask("GET", "/health").status == 200
        except OSError:
            return False

    with running(Slow(), "m", hosts=(NAME,)) as server:
        started = subprocess.Popen(
            command(proxy, tmp_path, port, server.port),
            stderr=subprocess.DEVNULL,
            env=dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin", HOME=str(tmp_path)),
        )
        try:
            wait_until(answers)
            assert b"<script src" in ask("GET", "/").read()
            found = ask("POST", "/v1/models/m:predict", {"instances": ["a"]})
            assert found.status == 200 and json.load(found)["predictions"][0]["text"] == "a"
            assert (
                ask(
                    "POST", "/v1/models/m:predict", {"instances": ["a"]}, "https://evil.example"
                ).status
                == 403
            )
            assert (
                ask("POST", "/v1/models/m:predict", {"instances": ["a" * (1 << 21)]}).status == 413
            )
            began = time.monotonic()
            stream = ask(
                "POST",
                "/v1/models/m:predict",
                {"signature_name": "generate", "instances": [{"prompt": "a"}], "stream": True},
            )
            assert b'"text"' in stream.readline() and time.monotonic() - began < 1
            assert b'"text"' in stream.readline() and time.monotonic() - began > 1
        finally:
            started.terminate()
            started.wait()
