"""Fine-tunes an XLNet to tag words, evaluates, predicts. `python run_tagger.py --help`."""

from xlnet.commands.fine_tuning import tag

if __name__ == "__main__":
    tag()
