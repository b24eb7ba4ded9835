"""fill_mask.py and generate.py, and the methods of a loaded model behind them."""

import json

import pytest

TEXT = "the cat ___ on a mat"


def test_a_loaded_model_fills_in_and_writes_on(model):
    one = model.fill(TEXT, most_pieces=1, top=2)
    assert len(one) == 2 and one[0].probability >= one[1].probability > 0
    assert one[0].text == TEXT.replace("___", one[0].words[0])
    assert model.fill([TEXT, "a ___ sat"], most_pieces=1, top=2)[0] == one
    how = dict(max_tokens=6, seed=1)
    written = model.generate("the cat", **how)
    assert written.tokens <= 6
    several = model.generate(["the cat", "a dog"], **how)
    assert len(several) == 2 and several[0].text == written.text
    parts = model.stream("the cat", **how)
    assert "".join(part.text for part in parts) == written.text
    stop = written.text[2:4]
    expected = written.text[: written.text.index(stop)]
    assert model.generate("the cat", stop=stop, **how).text == expected


def test_fillings_are_shown_with_their_probabilities(model, runs):
    done = runs("fill", "--text=" + TEXT, "--most_pieces=1", "--top=3")
    found = model.fill(TEXT, most_pieces=1, top=3)
    expected = [f"{100 * one.probability:10.4f} %  {one.text}" for one in found]
    assert done.stdout.splitlines() == [TEXT, *expected]


def test_answers_to_a_file_are_json_lines(model, runs, tmp_path):
    (tmp_path / "in").write_text(TEXT + "\n\nthe ___\n")
    out = tmp_path / "out.jsonl"
    paths = [f"--input={tmp_path / 'in'}", f"--output={out}"]
    done = runs("fill", *paths, "--most_pieces=1")
    assert done.returncode == 0 and done.stdout == f"written: {out}\n"
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["text"] for line in lines] == [TEXT, "the ___"]
    assert lines[1]["fillings"][0]["text"].startswith("the ")
    flags = ["--input=-", "--output=-", "--max_tokens=3"]
    done = runs("generate", *flags, typed="the cat\n")
    (found,) = map(json.loads, done.stdout.splitlines())
    assert (found["prompt"], found["ended"]) == ("the cat", "length")


@pytest.mark.parametrize(
    "bad, flags, said",
    [
        (b"the \xff ___", ["--output=out"], "text: found "),
        (b"no blank", [], "text: found 'no blank'"),
    ],
)
def test_a_bad_line_is_one_line(runs, tmp_path, monkeypatch, bad, flags, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_bytes(b"the ___\n\n" + bad + b"\na ___\n")
    done = runs("fill", "--input=in", "--most_pieces=1", *flags)
    (line,) = done.errors
    assert done.returncode == 1 and not (tmp_path / "out").exists()
    assert line.startswith(f"xlnet fill: text 1: {said}")


def test_prompts_of_a_file_are_continued_as_each_alone(model, runs, tmp_path):
    prompts = ["the cat", "a", "on the mat the dog", "two"]
    (tmp_path / "in").write_text("\n".join(prompts))
    flags = [f"--input={tmp_path / 'in'}", "--output=-", "--max_tokens=5", "--seed=2"]
    found = map(json.loads, runs("generate", *flags).stdout.splitlines())
    alone = [model.generate(prompt, max_tokens=5, seed=2).text for prompt in prompts]
    written = [(one["prompt"], one["text"]) for one in found]
    assert written == [*zip(prompts, alone)]


@pytest.mark.parametrize(
    "flags, status, message",
    [
        ([], 2, "text, input: found both or none"),
        (["--text=a ___", "--input=x"], 2, "text, input: found both or none"),
        (["--input=none"], 1, "no such file: none"),
        (["--text=a", "--order=up"], 2, "flag --order=up: value should be one of"),
    ],
)
def test_wrong_flags_are_named(runs, flags, status, message):
    done = runs("fill", *flags)
    assert done.returncode == status and message in done.stderr
    assert "Traceback" not in done.stderr
