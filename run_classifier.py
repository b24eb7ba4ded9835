"""Fine-tunes an XLNet on a task, evaluates, predicts. `python run_classifier.py --help`."""

from xlnet.commands.classify import run

if __name__ == "__main__":
    run()
