"""xlnet data merge: the records of two tasks become one directory, or it says why not."""

import re

from helpers import command
from helpers.preparation import SHAPE, make_workspace

from xlnet.records.manifest import Manifest


def test_records_of_two_tasks_are_merged(tmp_path):
    workspace = make_workspace(str(tmp_path))
    directory = workspace.path("out")

    def merged():
        return command.run("xlnet data merge", "--save_dir=" + directory)

    for task in (0, 1):
        done = command.run(
            "data_utils.py", "--input_glob=" + workspace.path("text.txt"),
            "--sp_path=" + workspace.path("sp.model"), "--save_dir=" + directory, *SHAPE,
            "--num_streams=2", "--task=%d" % task, "--num_task=2")
        assert done.returncode == 0, done.stderr
        if task == 0:
            refused = merged()
            assert refused.returncode == 1 and "task 1 of 2 is missing" in refused.stderr
            assert len(refused.stderr.splitlines()) == 1
    done = merged()
    assert done.returncode == 0, done.stderr
    manifest = Manifest.read(directory)
    found = re.match(r"(.*): (\d+) streams x (\d+) windows, (\d+) tokens; (\d+) windows left out",
                     done.stdout)
    assert found[1] == directory and [int(found[i]) for i in (2, 3, 4)] == [
        manifest.num_streams, manifest.windows_per_stream, manifest.tokens] and found[2] == "4"
    assert manifest.tokens == sum(Manifest.read(
        "%s/task-%05d-of-00002" % (directory, task)).tokens for task in (0, 1))
