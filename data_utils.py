"""Text to pretraining records, text streams and a manifest. `--help` lists the flags."""

from xlnet.commands.data import make

if __name__ == "__main__":
    make()
