"""scripts/check_export.py asks a server: one that stands in answers what it is given."""

import http.server
import json
import subprocess
import sys
import threading

import pytest
from helpers.paths import ROOT

EXAMPLES = {
    "text": {
        "inputs": {"text_a": {"dtype": "string", "value": ["kamat"]}},
        "outputs": {
            "label": {"dtype": "string", "value": ["animal"]},
            "probabilities": {"dtype": "float32", "value": [[0.25, 0.75]]},
        },
    },
    "vectors": {
        "inputs": {"text": {"dtype": "string", "value": ["kamat"]}},
        "outputs": {"vectors": {"dtype": "float32", "value": [[0.5, -1.5]]}},
    },
}


@pytest.fixture
def server():
    """Function from outputs by signature to the URL of a server that answers them."""
    started = []

    def start(outputs):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                name = asked["signature_name"]
                assert self.path == "/v1/models/m:predict"
                assert asked["inputs"] == {
                    key: value["value"]
                    for key, value in EXAMPLES[name]["inputs"].items()
                }
                self.send_response(200 if name in outputs else 404)
                self.end_headers()
                self.wfile.write(
                    json.dumps(
                        {"outputs": outputs[name]}
                        if name in outputs
                        else {"error": "no such signature"}
                    ).encode()
                )

            def log_message(self, *_):
                pass

        serving = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        started.append(serving)
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{serving.server_port}/v1/models/m"

    yield start
    for each in started:
        each.shutdown()
        each.server_close()


def check(tmp_path, *arguments, examples=EXAMPLES):
    (tmp_path / "assets.extra").mkdir(exist_ok=True)
    (tmp_path / "assets.extra" / "examples.json").write_text(json.dumps(examples))
    return subprocess.run(
        [
            sys.executable,
            "-I",
            ROOT / "scripts" / "check_export.py",
            str(tmp_path),
            *arguments,
        ],
        capture_output=True,
        text=True,
    )


def test_the_answers_of_a_server_are_compared(tmp_path, server):
    """TensorFlow Serving leaves out the name of a single output."""
    right = {
        "text": {"label": ["animal"], "probabilities": [[0.25, 0.750001]]},
        "vectors": [[0.5, -1.5]],
    }
    done = check(tmp_path, "--url=" + server(right))
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout == "text: label: the same\ntext: probabilities: 1e-06 apart\n"
        "vectors: vectors: 0 apart\n"
    )
    wrong = {
        "text": {"label": ["plant"], "probabilities": [[0.75, 0.25]]},
        "vectors": [[0.5, -1.5, 1.0]],
    }
    done = check(tmp_path, f"--url={server(wrong)}/", "0.1")
    assert done.returncode == 1 and done.stdout.count("WRONG") == 3
    # json writes and reads NaN.
    wrong = {**right, "vectors": [[0.5, float("nan")]]}
    done = check(tmp_path, "--url=" + server(wrong))
    assert (
        done.returncode == 1 and "vectors: vectors: nan apart: WRONG\n" in done.stdout
    )


def test_what_is_no_server_is_one_line(tmp_path, server):
    for arguments, said in (
        (["--url=" + server({})], '404: Not Found: {"error": "no such'),
        (["--url=http://127.0.0.1:1/x"], "no answer of a server of models"),
        (["--url=nonsense"], "no answer of a server of models"),
        (["a lot"], "the tolerance is 'a lot', expected a number"),
    ):
        done = check(tmp_path, *arguments)
        assert done.returncode == 1 and said in done.stderr, done.stderr
        assert len(done.stderr.splitlines()) == 1
