import sys

from xlnet.__main__ import main

for name in ("missing.csv", "also_missing.csv"):
    sys.argv = ["xlnet", "predict", "--model_dir=model", "--input=" + name]
    try:
        main()
    except SystemExit as e:
        print(name, "exit", e.code)
