"""Shows pretraining records: windows as text, counts, masks and histograms as pictures."""

import recipes  # finds the library

from xlnet.programs.inspect_records import run

if __name__ == "__main__":
    run()
