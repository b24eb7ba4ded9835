"""Computes the golden features of texts with the original implementation's own code.

    git clone https://github.com/zihangdai/xlnet original
    python tests/golden/compute_features.py original spiece.model

reads the texts of `classifier_features.json` and `squad_features.json.gz` next to this file, and
writes both again with what the original's functions make of them; `--check` only compares. The
texts are this project's own. It needs numpy, sentencepiece, absl and six; of TensorFlow, which the
original's modules import, these functions use only the log, so that a stand-in takes its place.
"""

import functools
import gzip
import json
import pathlib
import sys
import types
from unittest import mock

GOLDEN = pathlib.Path(__file__).parent
CLASSIFIER = GOLDEN / "classifier_features.json"
SQUAD = GOLDEN / "squad_features.json.gz"


def original(folder):
    """The original's modules, imported without TensorFlow and without the network."""
    sys.path.insert(0, folder)
    for name in ("tensorflow", "function_builder", "model_utils", "squad_utils"):
        sys.modules[name] = mock.MagicMock()
    import classifier_utils
    import prepro_utils

    import run_squad

    run_squad.FLAGS([sys.argv[0], "--uncased=False"])
    return classifier_utils, prepro_utils, run_squad


def classifier_features(modules, model, case):
    """The arrays of one row of a classification or regression task."""
    classifier_utils, prepro_utils, _ = modules

    def tokenize(text):
        return prepro_utils.encode_ids(model, prepro_utils.preprocess_text(text))

    example = types.SimpleNamespace(
        guid="", text_a=case["text_a"], text_b=case["text_b"], label=case["label"]
    )
    labels = case["labels"]
    if labels is None:
        example.label = float(case["label"])
    found = classifier_utils.convert_single_example(
        9, example, labels, case["max_seq_length"], tokenize
    )
    names = ("input_ids", "input_mask", "segment_ids", "label_id")
    return {name: getattr(found, name) for name in names}


NOT_KEPT = ("unique_id", "example_index", "doc_span_index")


def squad_features(modules, model, case):
    """The windows of one question."""
    run_squad = modules[2]
    example = run_squad.SquadExample(
        qas_id=case["qas_id"],
        question_text=case["question"],
        paragraph_text=case["context"],
        orig_answer_text=case["answer"],
        start_position=case["answer_start"],
        is_impossible=case["is_impossible"],
    )
    found = []
    run_squad.convert_examples_to_features(
        [example],
        model,
        case["max_seq_length"],
        case["doc_stride"],
        case["max_query_length"],
        case["training"],
        found.append,
    )
    windows = []
    for each in found:
        windows.append({k: v for k, v in vars(each).items() if k not in NOT_KEPT})
    return json.loads(json.dumps(windows))


def main():
    folder, spiece, *check = sys.argv[1:]
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=spiece)
    modules = original(folder)
    rows = json.loads(CLASSIFIER.read_text("utf-8"))
    questions = json.loads(gzip.decompress(SQUAD.read_bytes()))
    made_rows = [{**case, **classifier_features(modules, model, case)} for case in rows]
    made_questions = [
        {**case, "features": squad_features(modules, model, case)} for case in questions
    ]
    if check:
        pairs = zip(rows + questions, made_rows + made_questions)
        differing = sum(a != b for a, b in pairs)
        print(f"{len(rows)} rows and {len(questions)} questions, {differing} differ")
        sys.exit(differing > 0)
    dump = functools.partial(json.dumps, ensure_ascii=False)
    CLASSIFIER.write_text(dump(made_rows, indent=0) + "\n", "utf-8")
    SQUAD.write_bytes(gzip.compress(dump(made_questions).encode(), mtime=0))


if __name__ == "__main__":
    main()
