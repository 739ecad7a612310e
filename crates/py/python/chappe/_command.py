"""Where the command `chappe` is."""

import os
import shutil


def find(but=None):
    """Its path: that of CHAPPE_COMMAND, the one that the package brings along, or that of the PATH outside of the directory `but`; else None."""
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "chappe")
    if os.environ.get("CHAPPE_COMMAND"):
        return os.environ["CHAPPE_COMMAND"]
    if os.access(own, os.X_OK):
        return own
    paths = [d for d in os.get_exec_path() if but is None or os.path.realpath(d) != os.path.realpath(but)]
    return shutil.which("chappe", path=os.pathsep.join(paths))
