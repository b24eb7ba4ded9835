"""Fine-tunes an XLNet on a task, evaluates, predicts. `python run_classifier.py --help`."""

from xlnet.commands.fine_tuning import classify

if __name__ == "__main__":
    classify()
