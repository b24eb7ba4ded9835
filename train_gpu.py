"""Pretrains an XLNet on records made by data_utils.py. `python train_gpu.py --help`."""

from xlnet.commands.pretrain import run

if __name__ == "__main__":
    run()
