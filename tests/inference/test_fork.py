"""A model in another process than the one that loaded it: an error, where TensorFlow would hang."""

import os
import signal

import xlnet


def in_a_fork(work):
    """What `work` returns or raises in a forked child, as text; "hung" after a while."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        try:
            said = repr(work())
        except BaseException as e:
            said = f"{type(e).__name__}: {e}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as f:
        said = f.read()
    return said if not os.waitpid(pid, 0)[1] else "hung"


def test_a_model_in_a_fork_is_an_error(model_of, permuted):
    with (
        xlnet.load(model_of("classification"), device="cpu") as model,
        xlnet.load(str(permuted.folder), device="cpu") as speaks,
    ):
        assert model.classify(("kamat", "sol")).label and speaks.fill(
            "the cat ___ on a mat"
        )
        line = "model: found a fork, "
        for work in (
            lambda: model.classify(("kamat", "sol")),
            lambda: model.vectors("kamat"),
            lambda: list(model.pipe(iter([("kamat", "sol")]))),
            lambda: speaks.fill("the cat ___ on a mat"),
            lambda: speaks.generate("the cat"),
            lambda: speaks.attention("the cat", layers=[1]),
        ):
            said = in_a_fork(work)
            assert line in said and str(os.getpid()) not in said, said
        assert in_a_fork(model.close) == in_a_fork(lambda: model.__exit__()) == "None"
        assert model.classify(("kamat", "sol")).label
