"""Going back after a bad step: to which checkpoint, and which data the run passes over for it."""

from __future__ import annotations

import os
from typing import Optional

from xlnet import files
from xlnet.engine import checkpoint

SKIPPED_NAME = "skipped_data.json"
MOST_IN_A_ROW = 5               # before the run is given up


class Rollbacks:
    """The rollbacks of a run, and what they passed over, kept in its model directory.

    The loss may show only later that the weights are spoiled. So where a run goes wrong again
    before it has got past the place, it goes back to the checkpoint before the one of last time.
    """

    def __init__(self, model_dir: str):
        self._model_dir = model_dir
        self._path = os.path.join(model_dir, SKIPPED_NAME)
        self.in_a_row = 0            # without getting past the place where it went wrong
        self._last = 0              # the step that it went back to last time
        self._furthest = 0          # the latest step that went wrong

    def batch(self, step: int) -> int:
        """The batch that the run takes after `step` steps, counted from the run's first."""
        return step + sum(count for where, count in self._skips() if where <= step)

    def go_back(self, wrong: int) -> Optional[int]:
        """Drops the checkpoints behind the one that the run is to go on from, and has it pass over
        the data up to that of step `wrong`.

        Returns:
          The step to go on from: of a checkpoint, or 0 where the run has none yet; None if it went
          wrong too often, or there is nothing older to go back to.
        """
        step = self._choose(checkpoint.newest_whole(self._model_dir), wrong)
        if step is None:
            return None
        kept = [skip for skip in self._skips() if skip[0] <= step]
        passed = self.batch(wrong - 1) + 1 - step - sum(count for _, count in kept)
        files.write_json(self._path, {"skips": kept + [[step, passed]]})
        checkpoint.drop_after(self._model_dir, step)
        return step

    def _choose(self, newest, wrong):
        if newest > self._furthest:
            self.in_a_row = 0
        self._furthest = max(wrong, self._furthest)
        if self.in_a_row and newest:
            newest = checkpoint.newest_whole(self._model_dir, before=self._last)
        if self.in_a_row == MOST_IN_A_ROW or self.in_a_row and self._last and not newest:
            return None
        self.in_a_row, self._last = self.in_a_row + 1, newest
        return newest

    def _skips(self):
        """List of [step, number of batches passed over there]."""
        return files.read_json(self._path, "skipped data")["skips"] \
            if os.path.exists(self._path) else []
