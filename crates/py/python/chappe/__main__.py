"""`python -m chappe`: the command."""

import os
import shutil
import sys


def main():
    """Becomes the command that the package brings along, or else that of the PATH."""
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "chappe")
    command = own if os.access(own, os.X_OK) else None
    if command is None:
        # The script that pip makes of this function has the same name, and is no command to become.
        paths = [d for d in os.get_exec_path() if os.path.realpath(d) != os.path.realpath(os.path.dirname(sys.argv[0]))]
        command = shutil.which("chappe", path=os.pathsep.join(paths))
    if command is None:
        sys.exit("chappe: this package was built without the command; build it with `cargo xtask wheel`")
    os.execv(command, ["chappe", *sys.argv[1:]])


if __name__ == "__main__":
    main()
