"""Installs the libraries that the tests use, each in its pinned version, below target/interop; once for all tests that use it."""
import fcntl
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import threading

from controller import Failed, Missing, tail

HERE = pathlib.Path(__file__).resolve().parent
CACHE = HERE.parent.parent / "target" / "interop"
PREPARE = 600               # seconds for one command


LOCK = threading.Lock()


def once(prepare):
    """Prepares once, also if several threads or programs ask at the same time."""
    cached = functools.cache(prepare)

    @functools.wraps(prepare)
    def prepared(*arguments):
        CACHE.mkdir(parents=True, exist_ok=True)
        with LOCK, open(CACHE / "lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            return cached(*arguments)
    return prepared


def command(*line, cwd=None, env=None):
    """Runs a command of the preparation, which needs tools or the network."""
    try:
        done = subprocess.run(line, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PREPARE)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{error}") from None
    if done.returncode:
        raise Missing(f"`{' '.join(map(str, line[:4]))}` failed: {tail(done.stderr or done.stdout, 3)}")
    return done.stdout


def home(name, install, *pins):
    """A directory that `install` fills according to the pinned versions; filled again when they change."""
    stamp = hashlib.sha256(b"".join(pins)).hexdigest()[:12]
    directory = CACHE / f"{name}-{stamp}"
    if not (directory / "ready").exists():
        shutil.rmtree(directory, ignore_errors=True)
        install(directory)
        (directory / "ready").touch()
    return directory


@once
def python(program="client.py"):
    requirements, version = HERE / "python" / "requirements.txt", f"{sys.version_info.major}.{sys.version_info.minor}"

    def install(directory):
        command(sys.executable, "-m", "venv", directory)
        command(directory / "bin" / "python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes",
                "--only-binary", ":all:", "-r", requirements)
    return [home("python", install, requirements.read_bytes(), version.encode()) / "bin" / "python3", HERE / "python" / program]


@once
def go(program, modules="go.mod"):
    """Builds a program in go/, named by its directory, with the versions of a module file; the name of that file is a build tag as well."""
    if not shutil.which("go"):
        raise Missing("go is not there")
    tag = pathlib.Path(modules).stem
    built = CACHE / "-".join(["go", pathlib.Path(program).name or "client", *([tag] if tag != "go" else [])])
    # go.sum has the checksums; the checksum database lacks some of these versions and is not used.
    env = {**os.environ, "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false", "GONOSUMDB": "github.com/openziti/*", "GOWORK": "off"}
    chosen = f"-modfile={modules}", f"-tags={tag}"
    command("go", "list", *chosen, "-deps", program, cwd=HERE / "go", env=env)       # fetches the modules
    try:
        command("go", "build", *chosen, "-o", built, program, cwd=HERE / "go", env=env)
    except Missing as broken:
        raise Failed(broken) from None
    return [built]


@once
def ziti(version="1.1.15"):
    """The command line of a release, which contains the router and the tunneler; the same build as in ../programs."""
    sys.path.append(str(HERE.parent / "programs"))
    import programs
    return programs.ziti(version)


@once
def node():
    for tool in ("node", "npm"):
        if not shutil.which(tool):
            raise Missing(f"{tool} is not there")
    source = HERE / "browzer"
    files = [source / name for name in ("package.json", "package-lock.json")]

    def install(directory):
        directory.mkdir(parents=True)
        for file in files:
            shutil.copy(file, directory)
        command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=directory)
    modules = home("node", install, *(file.read_bytes() for file in files)) / "node_modules"
    return ["node", source / "client.mjs", modules / "@openziti" / "ziti-browzer-edge-client" / "dist" / "index.js"]
