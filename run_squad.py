"""Fine-tunes an XLNet to answer questions on texts. `python run_squad.py --help`."""

from xlnet.commands.fine_tuning import squad

if __name__ == "__main__":
    squad()
