"""Breaks the library in forty places, one at a time, and says which suite notices.

`python tests/faults/mutants.py [PART]`: in a copy of the repository, the tests of each place (or of
those whose file or code has this PART) run until one fails: the quick ones first, then the slow
ones. Prints a table; the exit status is 1 where something was not noticed.
"""

import os
import pathlib
import shutil
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# File, what it has, what it gets instead, tests that should notice (the likeliest first).
MODELING, KERNELS, NETWORK = "network/modeling", "network/kernels", "network/kernels_cpu"
PERMUTATION, OPTIMIZER, CHECKPOINT = "batches/permutation", "engine/optimizer", "engine/checkpoint"
BEST, WINDOWS, SPANS = "engine/best_checkpoint", "text/windows", "tasks/metrics/span_metrics"
GOLDEN = "network/test_modeling::test_pretraining_two_streams network/test_modeling"
ATTENTION = "network/test_kernels::test_relative_attention network/test_kernels"
SERVER = "serving/test_http_server"
MUTANTS = (
    (MODELING, "rank + 1 - tf.cast(is_target, rank.dtype)", "rank + 1",
     "network/test_modeling::test_permutation_mask_hides_what_comes_later"),
    (MODELING, "masked |= key < position", "masked |= key <= position",
     "network/test_modeling::test_causal_transformer_xl"),
    (MODELING, "net.cast(tf.sin(angles))[None]", "net.cast(tf.cos(angles))[None]", GOLDEN),
    (MODELING, "layer_norm(x + attended", "layer_norm(attended", GOLDEN),
    (MODELING, "new[:, -mem_len:]", "new[:, :mem_len]", GOLDEN),
    (MODELING, "mask_of(mask & tf.not_equal(key, position)", "mask_of(mask", GOLDEN),
    (MODELING, "masked * mask_embedding + (1. - masked) * h", "h + 0. * masked * mask_embedding",
     GOLDEN),
    (KERNELS, " / math.sqrt(shape_of(q)[3])", "", ATTENTION),
    (KERNELS, "> 0, same, other)", "> 0, other, same)", ATTENTION),
    (NETWORK, "kept * dp - p * total", "kept * dp - total", ATTENTION),
    (NETWORK, " - normal * along) * inverse", ") * inverse",
     "network/test_kernels::test_layer_norm"),
    (NETWORK, "3. * cubic * square", "2. * cubic * square",
     "network/test_kernels::test_feed_forward"),
    ("network/noise", "_in_32_bits(first_row) + count(0, 1)", "count(0, 1)",
     "network/test_noise pretraining/test_pretraining::test_noise_belongs_to_rows"),
    ("network/relative_shift", "[0, 0], [length, 0]])", "[0, 0], [0, length]])", ATTENTION),
    (PERMUTATION, "// size) * size + 1", "// size) * size", "batches/test_permutation"),
    (PERMUTATION, "(rank + 1) * is_permuted - 1)", "rank * is_permuted)",
     "batches/test_permutation"),
    (PERMUTATION, "share + random.uniform(1)[:, 0])", "share + .5)", "batches/test_permutation"),
    (PERMUTATION, "(up + down) < down, up, -down)", "(up + down) < up, up, -down)",
     "batches/test_permutation"),
    (PERMUTATION, "np.cumsum(1. / _SIZES) / np.sum(1. / _SIZES)", "_SIZES / len(_SIZES)",
     "batches/test_permutation"),
    (OPTIMIZER, "BETA1, BETA2 = 0.9, 0.999", "BETA1, BETA2 = 0.9, 0.99", "engine/test_optimizer"),
    (OPTIMIZER, 're.search("LayerNorm|bias", name)', 're.search("LayerNorm", name)',
     "engine/test_optimizer"),
    (OPTIMIZER, "(n_layer - 1 - layer)", "(n_layer - layer)", "engine/test_optimizer"),
    (OPTIMIZER, "rising = tf.cast(step, tf.float32)", "rising = tf.cast(step + 1, tf.float32)",
     "engine/test_optimizer"),
    (OPTIMIZER, "tf.clip_by_global_norm(gradients, settings.clip)",
     "(gradients, tf.global_norm(gradients))", "engine/test_optimizer"),
    ("engine/train_step", "[g / micro_batches for g in gradients]", "gradients",
     "engine/test_train_step engine/test_devices"),
    (CHECKPOINT, "key=lambda name: name.endswith", "key=lambda name: not name.endswith",
     "engine/test_checkpoint engine/test_resume"),
    (CHECKPOINT, "prefixes[:-max_save] if", "prefixes[:-max_save - 1] if",
     "engine/test_checkpoint engine/test_resume"),
    (CHECKPOINT, "if averaged and counts and not next(arrays(prefix, counts)):", "if False:",
     "engine/test_checkpoint"),
    (BEST, '-one.get("loss", 0)', 'one.get("loss", 0)', "engine/test_best_checkpoint"),
    (BEST, ">= self.patience", "> self.patience",
     "finetuning/test_finetuning::test_patience"),
    ("engine/recurrent_memory", "tf.where_v2(starts, 0., self._variable.read_value())",
     "self._variable.read_value() + 0. * tf.cast(starts, tf.float32)",
     "engine/test_recurrent_memory"),
    (SPANS, "2 * precision * recall / (precision + recall)", "(precision + recall) / 2",
     "tasks/test_span_scoring"),
    ("tasks/metrics/split_metrics", "else len(names) - 1", "else 0",
     "test_reports_tables"),
    ("tasks/files/schemes", " or label != open_label)", ")", "tasks/test_schemes"),
    ("tasks/types/ranking", "_trec_ndcg(2 ** relevance - 1", "_trec_ndcg(relevance",
     "tasks/test_ranking"),
    ("tasks/files/readers", "(lines, 1)\n" + 31 * " " + "if number", "(lines, 0) if number",
     "test_reports_tables tasks/test_task_files tasks/test_tasks"),
    (WINDOWS, "    words[sentences] = True\n", "", "text/test_windows text/test_corpus"),
    ("records/tfrecord", "0xa282ead8", "0xa282ead9",
     "records/test_manifest text/test_record_writer"),
    ("serving/generation", "padding=padding)[:, 0]", "padding=None)[:, 0]",
     "serving/test_generation"),
    ("serving/language_model", " or reading.size != self._size", "", "serving/test_generation"),
    ("serving/server/request_batching", "zip(batch, found):", "zip(batch, found[::-1]):", SERVER),
)


def broken(path, old, new):
    """Changes a file of the copy; returns its content before."""
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, (path, old)
    path.write_text(text.replace(old, new), encoding="utf-8")
    return text


def notices(copy, tests, marks):
    """Whether one of these tests fails, in a process that has imported TensorFlow already."""
    return any(_fails(copy, "tests/%s.py%s" % (name, "::" + test if test else ""), marks)
               for name, _, test in (each.partition("::") for each in tests.split()))


def _fails(copy, tests, marks):
    child = os.fork()
    if not child:
        import hypothesis
        import pytest
        hypothesis.settings.register_profile("first", phases=[hypothesis.Phase.generate])
        hypothesis.settings.load_profile("first")       # it does not shrink what fails
        os.chdir(copy)
        with open(copy / "log", "a", encoding="utf-8") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        os._exit(pytest.main(["-x", "-q", "-m", marks, "-p", "no:cacheprovider", tests]))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 1, 2, 5), "pytest ended with %d: see %s" % (status, copy / "log")
    return status in (1, 2)


def main():
    only = " ".join(sys.argv[1:])
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    sys.dont_write_bytecode = True      # a file is changed twice within a second
    import tensorflow.compat.v1  # noqa: F401
    copy = pathlib.Path(tempfile.mkdtemp(prefix="mutants-")) / "copy"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv*", "__pycache__"))
    seen = []       # by the quick tests, by all
    for name, old, new, tests in MUTANTS:
        if only not in name and only not in old:
            continue
        path = copy / "xlnet" / (name + ".py")
        before = broken(path, old, new)
        quick = notices(copy, tests, "not slow")
        full = quick or notices(copy, tests, "slow")
        path.write_text(before, encoding="utf-8")
        seen.append((quick, full))
        print("| %s | `%s` → `%s` | %s | %s |" % (
            name, *(" ".join(text.split()) for text in (old, new)), "yes" if quick else "no",
            "yes" if full else "no"), flush=True)
    shutil.rmtree(copy.parent)
    print("of %d the quick tests notice %d, all tests %d" % (
        len(seen), sum(quick for quick, _ in seen), sum(full for _, full in seen)))
    return not all(full for _, full in seen)


if __name__ == "__main__":
    sys.exit(main())
