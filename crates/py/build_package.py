"""Builds the package: the command first, which goes into the wheel, then the extension, by maturin.

Both are built by the profile `release`, which is quick to build, and without machine code for filters (closures do the same). maturin's
setting `build-args` is the command's as well: `pip install -C build-args="--profile dist --features full" ./crates/py` builds what
`cargo xtask wheel` does. A source distribution has the command's source as well.
"""

import gzip
import io
import json
import os
import shlex
import shutil
import subprocess
import tarfile

import maturin

HERE = os.path.dirname(os.path.abspath(__file__))
# Of a source distribution, where this file stands; of the repository, two above that.
ROOT = HERE if os.path.isdir(os.path.join(HERE, "crates")) else os.path.dirname(os.path.dirname(HERE))
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
    built = os.environ.get("CHAPPE_WHEEL_COMMAND")
    if not built:
        profile, args = chosen(config_settings)
        subprocess.check_call(["cargo", "build", *args, "-p", "chappe-cli"], cwd=ROOT)
        target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
        built = os.path.join(target, "debug" if profile == "dev" else profile, "chappe")
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


def build_sdist(sdist_directory, config_settings=None):
    """PEP 517: what maturin packs, and the source of the command and of the crates that it alone needs, with the licences.

    All files have the time of the repository's last commit, or of SOURCE_DATE_EPOCH: two are equal to the byte.
    """
    name = maturin.build_sdist(sdist_directory, config_settings)
    path = os.path.join(sdist_directory, name)
    top = name[: -len(".tar.gz")]
    with tarfile.open(path) as packed:
        files = {member.name: packed.extractfile(member).read() for member in packed if member.isfile()}
    more = [os.path.join(HERE, "build_package.py"), *(os.path.join(ROOT, "LICENSE-" + of) for of in ("APACHE", "MIT"))]
    named = {os.path.basename(file): file for file in more}
    for crate in command_crates():
        if f"{top}/{os.path.relpath(crate, ROOT)}/Cargo.toml" in files:
            continue
        found = [os.path.join(crate, "Cargo.toml")]
        for directory, _, names in os.walk(os.path.join(crate, "src")):
            found += [os.path.join(directory, one) for one in names]
        named.update((os.path.relpath(file, ROOT), file) for file in found)
    for to, file in named.items():
        with open(file, "rb") as source:
            files[f"{top}/{to}"] = source.read()
    with open(path, "wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=0) as small, tarfile.open(fileobj=small, mode="w") as tar:
        for to, data in sorted(files.items()):
            entry = tarfile.TarInfo(to)
            entry.size, entry.mtime = len(data), epoch()
            tar.addfile(entry, io.BytesIO(data))
    return name


def command_crates():
    """The directories of the command and of all the workspace's crates that it is made of."""
    ask = ["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"]
    packages = json.loads(subprocess.check_output(ask, cwd=ROOT))["packages"]
    needs = {one["name"]: [need["name"] for need in one["dependencies"] if need.get("path")] for one in packages}
    found = []
    left = ["chappe-cli"]
    while left:
        name = left.pop()
        if name not in found:
            found.append(name)
            left += needs[name]
    return [os.path.dirname(one["manifest_path"]) for one in packages if one["name"] in found]


def epoch():
    """The time that the files of a source distribution have: seconds since 1970."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    asked = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    return int(asked.stdout) if asked.returncode == 0 else 0


get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
get_requires_for_build_editable = maturin.get_requires_for_build_editable
get_requires_for_build_sdist = maturin.get_requires_for_build_sdist
prepare_metadata_for_build_wheel = maturin.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = maturin.prepare_metadata_for_build_editable
