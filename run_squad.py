"""Fine-tunes an XLNet to answer questions on texts. `python run_squad.py --help`."""

from xlnet.commands.squad import run

if __name__ == "__main__":
    run()
