"""Fine-tunes an XLNet to tag words, evaluates, predicts. `python run_tagger.py --help`."""

from xlnet.commands.tag import run

if __name__ == "__main__":
    run()
