"""Joins the records that several machines made with data_utils.py --task=K --num_task=N."""

import recipes  # finds the library

from xlnet.programs.merge_records import run

if __name__ == "__main__":
    run()
