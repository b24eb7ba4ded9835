"""Where the repository is. Imported first, so that the library in it is found uninstalled."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
