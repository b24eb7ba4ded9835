"""Where the repository is. Imported first, so that the library in it is found uninstalled, and
what scripts/ share."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [ROOT, os.path.join(ROOT, "scripts")]
