"""Builds the package: the command first, which goes into the wheel, then the extension, by maturin.

Without the rest of the repository beside it there is no command to build; then `python -m chappe` looks for one on the PATH.
"""

import os
import shutil
import subprocess

import maturin

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
COMMAND = os.path.join(HERE, "python", "chappe", "bin", "chappe")


def build_command():
    """Builds the command and puts it where maturin finds it."""
    if os.environ.get("CHAPPE_WHEEL_COMMAND"):
        built = os.environ["CHAPPE_WHEEL_COMMAND"]
    elif os.path.isdir(os.path.join(ROOT, "crates", "cli")):
        subprocess.check_call(["cargo", "build", "--release", "-p", "chappe-cli"], cwd=ROOT)
        target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
        built = os.path.join(target, "release", "chappe")
    else:
        return
    os.makedirs(os.path.dirname(COMMAND), exist_ok=True)
    shutil.copy2(built, COMMAND)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517."""
    build_command()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 660."""
    build_command()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


build_sdist = maturin.build_sdist
get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
get_requires_for_build_editable = maturin.get_requires_for_build_editable
get_requires_for_build_sdist = maturin.get_requires_for_build_sdist
prepare_metadata_for_build_wheel = maturin.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = maturin.prepare_metadata_for_build_editable
