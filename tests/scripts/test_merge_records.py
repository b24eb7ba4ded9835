"""xlnet data merge: the records of two tasks become one directory, or it says why not."""

import pathlib
import re

from helpers import command
from helpers.preparation import SHAPE, make_workspace

from xlnet.records.manifest import Manifest


def test_records_of_two_tasks_are_merged(tmp_path):
    workspace = make_workspace(str(tmp_path))
    directory = workspace.path("out")

    for task in (0, 1):
        command.succeed(
            "data_utils.py",
            *SHAPE,
            input_glob=workspace.path("text.txt"),
            sp_path=workspace.path("sp.model"),
            save_dir=directory,
            num_streams=2,
            task=task,
            num_task=2,
        )
        if task == 0:
            assert "task 1 of 2 is missing" in command.refused("xlnet data merge", input=directory)
            assert f"input: no such directory: {directory}x" in command.refused(
                "xlnet data merge", input=directory + "x"
            )
    vocabulary = pathlib.Path(directory, "spiece.model")
    vocabulary.write_bytes(b"of somebody")
    assert f"input: {vocabulary} is another vocabulary than " in command.refused(
        "xlnet data merge", input=directory
    )
    assert vocabulary.read_bytes() == b"of somebody"
    vocabulary.unlink()
    done = command.succeed("xlnet data merge", input=directory)
    manifest = Manifest.read(directory)
    found = re.match(
        r"(.*): (\d+) streams x (\d+) windows, (\d+) tokens; (\d+) windows left out", done.stdout
    )
    assert (
        found[1] == directory
        and [int(found[i]) for i in (2, 3, 4)]
        == [manifest.num_streams, manifest.windows_per_stream, manifest.tokens]
        and found[2] == "4"
    )
    assert manifest.tokens == sum(
        Manifest.read(f"{directory}/task-{task:05}-of-00002").tokens for task in (0, 1)
    )
