"""A pretraining run: data, model directory, devices, held-out evaluation, from start to end."""

import contextlib
import dataclasses
import math
import os
import re

import tensorflow.compat.v1 as tf

from xlnet import files
from xlnet.batches import input_pipeline
from xlnet.engine import checkpoint, memory, optimization, reports, saving, selection, training
from xlnet.errors import UserError
from xlnet.pretraining import sources
from xlnet.pretraining.model import PretrainingModel
from xlnet.pretraining.sample import Sample
from xlnet.tokenization import Tokenizer, descriptions_beside

HELD_OUT_NAME = "held_out.tsv"
SETTINGS_NAME = "pretraining.json"
SKIPPED_NAME = "skipped_data.json"
_ROLLBACKS = 5                  # before the run is given up
_TIMES_CHANCE = 2.              # a loss that many times that of guessing blindly has exploded


class Run:
    """A pretraining run: data, model directory, evaluation points.

    Args:
      settings, network, optimization: `PretrainingSettings`, `NetworkSettings`,
        `OptimizationSettings`. config: `XLNetConfig`. manifest: that of the training records.
      devices: `distribution.Devices`.
    """

    def __init__(self, settings, config, network, optimization, manifest, devices):
        self._settings = settings
        self._config = config
        self._network = network
        self._optimization = optimization
        self._manifest = manifest
        self._devices = devices
        self._tokenizer = Tokenizer(os.path.join(settings.record_info_dir, manifest.sp_model),
                                    manifest.uncased, manifest.keep_accents,
                                    descriptions_beside(settings.init_checkpoint))
        self._permutation = sources.choose_permutation(settings, manifest)
        self._held_out = sources.held_out_manifest(settings, manifest)
        self._check()
        if devices.is_chief:
            training.keep_architecture(settings.model_dir, config, self._tokenizer)
            files.write_json(os.path.join(settings.model_dir, SETTINGS_NAME), self._resolved())
        model = PretrainingModel(config, network, optimization, settings, manifest.reuse_len,
                                 self._tokenizer)
        self._model_fn = model.model_fn

    def _check(self):
        """Raises UserError for what cannot be, before anything is made."""
        settings = self._settings
        input_pipeline.steps_per_epoch(self._manifest, settings.train_batch_size)
        training.run_config(self._network, is_training=True)
        optimization.warmup_steps(self._optimization)
        self._devices.check_divides(settings.train_batch_size, settings.grad_accum_steps)
        if settings.objective == "masked" and self._tokenizer.mask_id is None:
            raise UserError("objective is masked, but %s has no <mask>" % self._tokenizer.path)
        if settings.same_length and settings.objective != "causal":
            raise UserError("same_length is True; it belongs to --objective=causal")
        if settings.on_nan == "rollback" and self._devices.hosts > 1:
            raise UserError("on_nan is rollback, which runs on one host; use stop")
        if settings.init_checkpoint:
            checkpoint.check_config(checkpoint.resolve(settings.init_checkpoint), self._config)

    # -- training

    def train(self):
        """Trains to the last step from wherever the run stands; evaluates on the way."""
        last, is_chief = self._optimization.train_steps, self._devices.is_chief
        step = checkpoint.newest_whole(self._settings.model_dir, is_chief)
        if is_chief and (not step or step >= last):
            self.evaluate()
        if step >= last:
            print("the run in %s has all of its %d steps" % (self._settings.model_dir, last))
            return
        self._train_from(step)

    def _train_from(self, step):
        """Trains on; where the run goes wrong, stops or goes back and skips data."""
        banner = self._banner(step)
        for rollback in range(_ROLLBACKS + 1):
            try:
                self._train(step, banner)
                return
            except reports.Diverged as e:
                if self._settings.on_nan == "stop" or rollback == _ROLLBACKS:
                    raise
                step, banner = checkpoint.newest_whole(self._settings.model_dir), None
                self._skip(step, e.step - step)
                print("note: %s; back to step %d, %d batches are skipped"
                      % (e, step, e.step - step), flush=True)

    def _train(self, step, banner):
        settings, devices = self._settings, self._devices
        progress = reports.Progress(
            train_steps=self._optimization.train_steps, log_steps=settings.log_steps,
            per_step=settings.train_batch_size * self._manifest.seq_len, unit="tokens",
            model_dir=settings.model_dir, banner=banner, with_perplexity=True,
            highest_loss=_TIMES_CHANCE * math.log(self._config.n_token),
            is_chief=devices.is_chief)
        saver = saving.Saving(
            settings.model_dir,
            memory.MemoryFiles(settings.model_dir, devices, settings.train_batch_size), devices,
            is_due=self._is_saved, max_save=settings.max_save, keep_every=settings.keep_every,
            after_save=self._after_save, start_step=step)
        estimator = training.make_estimator(self._model_fn, model_dir=settings.model_dir,
                                            seed=settings.seed, devices=devices)
        with _errors_of_drawing():
            training.train(estimator, lambda: self._batches(step), hooks=[progress, saver],
                           max_steps=self._optimization.train_steps, devices=devices)
        if saver.stopped_at is not None:
            print("stopped by SIGTERM at step %d, saved; the same command goes on from there"
                  % saver.stopped_at, flush=True)

    def _is_saved(self, step):
        return step % self._settings.save_steps == 0 or self._is_evaluated(step)

    def _is_evaluated(self, step):
        every = self._settings.eval_steps
        return step >= self._optimization.train_steps or bool(every and step % every == 0)

    def _after_save(self, step):
        if self._is_evaluated(step):
            self.evaluate()

    # -- data

    def _batches(self, step):
        settings, devices = self._settings, self._devices
        return input_pipeline.for_replicas(input_pipeline.pretraining_batches(
            settings.record_info_dir, self._manifest, permutation=self._permutation,
            batch_size=settings.train_batch_size, **self._vocabulary(),
            seed=settings.seed, start_step=step + self._skipped(step),
            rows=devices.rows(settings.train_batch_size)), devices.per_host)

    def _vocabulary(self):
        """What drawing targets needs to know of the pieces."""
        return dict(special_ids=[self._tokenizer.sep_id, self._tokenizer.cls_id],
                    legacy_word_start=self._tokenizer.is_legacy_word_start)

    def _skips(self):
        """Batches that rollbacks passed over: list of [step, number of batches skipped there]."""
        path = os.path.join(self._settings.model_dir, SKIPPED_NAME)
        return files.read_json(path, "skipped data")["skips"] if os.path.exists(path) else []

    def _skipped(self, step):
        return sum(count for where, count in self._skips() if where <= step)

    def _skip(self, step, count):
        files.write_json(os.path.join(self._settings.model_dir, SKIPPED_NAME),
                         {"skips": self._skips() + [[step, count]]})

    # -- held-out evaluation

    def evaluate(self):
        """Measures loss and perplexity on the held-out records, if there are any: memories carried
        along, always the same targets and orders, moving averages of the weights if they are kept.

        Prints them, adds the loss in nats per target to `held_out.tsv`, and copies the checkpoint
        to `best/` if it is the best so far.
        """
        if self._held_out is None:
            return
        sample = Sample(self._tokenizer)
        with _one_host(), _errors_of_drawing():
            estimator = training.make_estimator(
                self._model_fn, model_dir=self._settings.model_dir, seed=self._settings.seed)
            result = estimator.evaluate(self._held_out_batches, hooks=[sample])
        step, loss = int(result["global_step"]), float(result["nats_per_target"])
        accuracy = "  next segment %.4f" % result["next_segment_accuracy"] \
            if "next_segment_accuracy" in result else ""
        print("held out: step %d  loss %.4f  ppl %.2f  bits/token %.4f%s" % (
            step, loss, math.exp(min(loss, 50)), loss / math.log(2), accuracy), flush=True)
        self._keep_result(step, loss, sample.text)

    def _held_out_batches(self):
        settings, manifest = self._settings, self._held_out
        most = settings.train_batch_size // self._devices.replicas // settings.grad_accum_steps
        return input_pipeline.pretraining_batches(
            settings.eval_record_info_dir, manifest, permutation=self._permutation,
            batch_size=_largest_divisor(manifest.num_streams, most),
            **self._vocabulary(), seed=0, epochs=1)

    def _keep_result(self, step, loss, text):
        """One line of `held_out.tsv` a step, in order; TensorBoard; the best checkpoint."""
        model_dir = self._settings.model_dir
        path = os.path.join(model_dir, HELD_OUT_NAME)
        losses = {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                losses = {int(step): float(loss)
                          for step, loss in (line.split("\t") for line in list(f)[1:])}
        losses = {earlier: value for earlier, value in losses.items() if earlier < step}
        if step and loss <= min(losses.values(), default=math.inf):
            selection.export(
                tf.train.latest_checkpoint(model_dir), os.path.join(model_dir, selection.BEST),
                selection.sidecar_files(model_dir))
        losses[step] = loss
        files.write_text(path, "step\tloss\n" + "".join(
            "%d\t%.6f\n" % item for item in losses.items()))
        reports.add_to_board(model_dir, step, {
            "held_out/loss": loss, "held_out/perplexity": math.exp(min(loss, 50)),
            "held_out/bits_per_token": loss / math.log(2)}, {"held_out/sample": text})

    def _banner(self, step):
        settings, manifest, devices = self._settings, self._manifest, self._devices
        epoch = input_pipeline.steps_per_epoch(manifest, settings.train_batch_size)
        each = settings.train_batch_size // devices.replicas // settings.grad_accum_steps
        return {
            "devices": devices.words,
            "precision": training.precision_in_words(self._network),
            "data": "%s: %s tokens, %d streams of %d windows" % (
                settings.record_info_dir, "{:,}".format(manifest.tokens), manifest.num_streams,
                manifest.windows_per_stream),
            "objective": settings.objective,
            "windows": "%d tokens, %d reused, memory %d, %d predicted" % (
                manifest.seq_len, manifest.reuse_len, settings.mem_len, settings.num_predict),
            "batch": "%d windows = %d x %d replicas x %d micro-batches; an epoch is %d steps" % (
                settings.train_batch_size, each, devices.replicas, settings.grad_accum_steps,
                epoch),
            "steps": "%d to %d" % (step, self._optimization.train_steps),
            "model": "%r in %s" % (self._config, settings.model_dir),
            "settings": " ".join("%s=%s" % item for item in self._resolved().items()),
        }

    def _resolved(self):
        """Every setting that the run has a value for, by name."""
        values = {}
        for group in (self._settings, self._network, self._optimization):
            values.update(dataclasses.asdict(group))
        return {name: value for name, value in sorted(values.items()) if value is not None}


@contextlib.contextmanager
def _one_host():
    """Hides TF_CONFIG: what the chief does alone needs no other host."""
    cluster = os.environ.pop("TF_CONFIG", None)
    try:
        yield
    finally:
        if cluster is not None:
            os.environ["TF_CONFIG"] = cluster


@contextlib.contextmanager
def _errors_of_drawing():
    """Makes a UserError that was raised inside of the graph one again."""
    try:
        yield
    except tf.errors.OpError as e:
        found = re.search(r"UserError: (.+)", e.message)
        if not found:
            raise
        raise UserError(found.group(1)) from None


def _largest_divisor(number, limit):
    return max(n for n in range(1, min(number, limit) + 1) if number % n == 0)
