"""Text to pretraining records: streams of windows and a manifest. `--help` lists the flags."""

from xlnet.programs.data_utils import run

if __name__ == "__main__":
    run()
