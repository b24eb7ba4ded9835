"""Text to pretraining records, text streams and a manifest. `--help` lists the flags."""

from xlnet.commands.data_make import run

if __name__ == "__main__":
    run()
