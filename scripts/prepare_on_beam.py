"""data_utils.py as an Apache Beam pipeline: Dataflow, Spark, Flink, or this machine."""

import recipes  # finds the library

from xlnet.programs.prepare_on_beam import run

if __name__ == "__main__":
    run()
