"""`python -m chappe`: the command."""

import os
import sys

from chappe._command import find


def main():
    """Becomes the command that the package brings along, or else that of the PATH."""
    # The script that pip makes of this function has the same name, and is no command to become.
    command = find(but=os.path.dirname(sys.argv[0]))
    if command is None:
        sys.exit("chappe: this package was built without the command; build it with `cargo xtask wheel`")
    os.execv(command, ["chappe", *sys.argv[1:]])


if __name__ == "__main__":
    main()
