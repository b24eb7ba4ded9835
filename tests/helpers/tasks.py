"""Settings and files of tasks, for tests of how files are read."""

from xlnet.settings.finetuning import ClassifierSettings


def settings(data_dir, group=ClassifierSettings, **changes):
    """Those of a run that trains on own files; the other files that it names do not exist."""
    return group(
        **{
            **dict(
                task_name="custom",
                data_dir=str(data_dir),
                model_dir="m",
                output_dir="o",
                spiece_model_file="s",
                model_config_path="c",
                do_train=True,
            ),
            **changes,
        }
    )


def write(directory, name, *lines):
    """A file of lines; their half surrogates are bytes that are not UTF-8."""
    content = "".join(line + "\n" for line in lines)
    (directory / name).write_bytes(content.encode("utf-8", "surrogateescape"))
