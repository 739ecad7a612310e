"""Builds the package: the command first, which goes into the wheel, then the extension, by maturin.

Both are built by the profile `release`, which is quick to build, and without machine code for filters (closures do the same). maturin's
setting `build-args` is the command's as well: `pip install -C build-args="--profile dist --features full" ./crates/py` builds what
`cargo xtask wheel` does. Without the rest of the repository beside it there is no command to build; then `python -m chappe` looks for one
on the PATH.
"""

import os
import shlex
import shutil
import subprocess

import maturin

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
COMMAND = os.path.join(HERE, "python", "chappe", "bin", "chappe")


def chosen(config_settings):
    """The profile, and the arguments by which the command has it and the features that are asked for."""
    settings = config_settings or {}
    words = settings.get("build-args", settings.get("maturin.build-args", []))
    words = shlex.split(words if isinstance(words, str) else " ".join(words))
    words = [part for word in words for part in word.split("=", 1)]
    of = dict(zip(words, words[1:]))
    profile = of.get("--profile", "release")
    features = [word for name in ("-F", "--features") if name in of for word in ("--features", of[name])]
    # What `chappe.term` runs.
    return profile, ["--profile", profile, *features, "--features", "term"]


def build_command(config_settings):
    """Builds the command and puts it where maturin finds it."""
    if os.environ.get("CHAPPE_WHEEL_COMMAND"):
        built = os.environ["CHAPPE_WHEEL_COMMAND"]
    elif os.path.isdir(os.path.join(ROOT, "crates", "cli")):
        profile, args = chosen(config_settings)
        subprocess.check_call(["cargo", "build", *args, "-p", "chappe-cli"], cwd=ROOT)
        target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
        built = os.path.join(target, "debug" if profile == "dev" else profile, "chappe")
    else:
        return
    os.makedirs(os.path.dirname(COMMAND), exist_ok=True)
    shutil.copy2(built, COMMAND)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517."""
    build_command(config_settings)
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 660."""
    build_command(config_settings)
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


build_sdist = maturin.build_sdist
get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
get_requires_for_build_editable = maturin.get_requires_for_build_editable
get_requires_for_build_sdist = maturin.get_requires_for_build_sdist
prepare_metadata_for_build_wheel = maturin.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = maturin.prepare_metadata_for_build_editable
