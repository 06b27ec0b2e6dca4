"""Runs third-party programs, as operators and applications run them, against a controller.

  ziti-1.1.15, ziti-1.7.2   the unmodified command line, with the most common commands of operators (steps.py); what version 1.1.15 prints is
                            compared with a recording (results.py)
  java                      the Java SDK: enrolls, logs in, lists its services (java/)

Each program is built once from its public module or package, in the version that this file or java/pom.xml pins. Builds are kept in
$XDG_CACHE_HOME/overkeep/programs (~/.cache by default), shared by all clones.
"""
import argparse
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "interop"))
from controller import Failed, Missing, controller, expect, tail, until  # noqa: E402
import results  # noqa: E402
from results import Results  # noqa: E402
from steps import WORD, Operator, Ziti, go_controller, steps  # noqa: E402

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "overkeep" / "programs"
BUILD = 1800                # seconds: one build on a slow machine
RUN = 120                   # seconds: one program's run
RECORDINGS = HERE.parent / "data"
RECORDED = {"1.1.15"}  # versions with a recording
# Commands whose results differ from the recorded ones, and why.
ACCEPTED = [
    (r"^edge version$", "the version of the controller"),
    (r"^edge list summary$", "counts the log-ins of the test itself"),
    (r"^edge delete config-type paint$", "a type that configs have is a conflict (409), not an internal error"),
    (r"^edge delete enrollment ID$", "the Go controller cannot list enrollments after a router was deleted"),
]
MODULE = "github.com/openziti/ziti"
# The module of each version of the command line. The second one depends on a module version that is no longer available.
ZITI = {
    "1.1.15": f"module programs\n\ngo 1.24\n\nrequire {MODULE} v1.1.15\n",
    "1.7.2": f"module programs\n\ngo 1.25.3\n\nrequire {MODULE} v1.7.2\n\n"
             "replace github.com/michaelquigley/pfxlog => github.com/michaelquigley/pfxlog v0.6.10\n",
}


def command(*line, cwd, env=None):
    try:
        done = subprocess.run([*map(str, line)], cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BUILD)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{error}") from None
    if done.returncode:
        raise Missing(f"`{' '.join(map(str, line[:3]))}` failed: {tail(done.stderr or done.stdout, 4)}")


def ziti(version):
    """The command line, built if it is not cached. The version is set at link time, as in a release."""
    if not shutil.which("go"):
        raise Missing("go is not there")
    stamp = hashlib.sha256(ZITI[version].encode()).hexdigest()[:12]
    binary = CACHE / f"ziti-{version}-{stamp}"
    if not binary.exists():
        work = CACHE / f"build-{version}"
        work.mkdir(parents=True, exist_ok=True)
        (work / "go.mod").write_text(ZITI[version])
        part = binary.with_suffix(".part")
        # The checksum database lacks some of these versions and is not used for them.
        environment = {**os.environ, "GOFLAGS": "-mod=mod -trimpath -buildvcs=false", "GONOSUMDB": "github.com/openziti/*",
                       "GOTOOLCHAIN": "local", "GOWORK": "off"}
        command("go", "build", "-ldflags", f"-X {MODULE}/common/version.Version=v{version}", "-o", part, f"{MODULE}/ziti",
                cwd=work, env=environment)
        part.rename(binary)
    return binary


def operate(admin, work, version, report):
    """Runs all steps and reports each; steps after a failed one are run as well. Then the results are compared with the recorded ones."""
    with open(work / "commands", "w") as log, go_controller(program := Ziti(ziti(version), work / "home", log), work) as go:
        program.results = Results(work, admin, WORD)
        operator = Operator(program, admin, work, version, go)
        for step in steps(version):
            name = f"ziti {version}: {step.removeprefix('step_').replace('_', ' ')}"
            try:
                getattr(operator, step)()
                report(name, None)
            except Failed as reason:
                report(name, str(reason))
    recording = RECORDINGS / f"ziti-{version}.json.gz"
    if version in RECORDED:
        compare(results.read(recording), program.results.all(), lambda command, reason: report(f"ziti {version}: {command[:60]}", reason))


def compare(recorded, found, report):
    """Reports each command whose result differs from the recorded one, and the number of the others."""
    same = 0
    for command in sorted(recorded.keys() | found.keys()):
        one, other = ({command: whole[command]} if command in whole else {} for whole in (recorded, found))
        lines = list(results.differences(one, other))
        accepted = next((reason for pattern, reason in ACCEPTED if re.search(pattern, command)), None)
        if lines and not accepted:
            report(command, "; ".join(lines[:5]))
        same += not lines
    report(f"{same} of {len(recorded)} results as recorded", None if same > len(recorded) - len(ACCEPTED) - 1 else "too few")


def record(version, work, path):
    """Runs the steps on the controller that the program contains, and writes the results."""
    with open(work / "commands", "w") as log, go_controller(program := Ziti(ziti(version), work / "home", log), work) as go:
        # It starts with a router of its own, and policies for it; the router is the last.
        until(lambda: any(router["isOnline"] for router in go.get("/edge-routers")), RUN, "the Go controller has no router")
        for kind in ("edge-routers", "edge-router-policies", "service-edge-router-policies"):
            for one in go.get(f"/{kind}"):
                if not one.get("isSystem"):
                    go.ask("DELETE", f"/{kind}/{one['id']}")
        program.results = Results(work, go, WORD)
        operator = Operator(program, go, work, version, go)
        for step in steps(version):
            try:
                getattr(operator, step)()
            except Failed as reason:
                print(f"not as expected: {step}: {reason}", flush=True)
        # It ends about a minute after its router was deleted, which is too early on a slow machine.
        go.get("/version")
        results.write(path, program.results.all())
        print(f"{len(program.results.said)} commands, {path.stat().st_size} bytes")


def java_classes():
    """The class path of the program in java/, compiled with the SDK that its pom.xml pins."""
    for tool in ("java", "javac", "mvn"):
        if not shutil.which(tool):
            raise Missing(f"{tool} is not there")
    source = HERE / "java"
    stamp = hashlib.sha256((source / "pom.xml").read_bytes() + (source / "Client.java").read_bytes()).hexdigest()[:12]
    home = CACHE / f"java-{stamp}"
    if not (home / "ready").exists():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        command("mvn", "--batch-mode", "--quiet", "-f", source / "pom.xml", "dependency:copy-dependencies",
                f"-DoutputDirectory={home / 'lib'}", f"-DbuildDirectory={home / 'build'}", cwd=home)
        command("javac", "-cp", f"{home / 'lib'}/*", "-d", home / "classes", source / "Client.java", cwd=home)
        (home / "ready").touch()
    return f"{home / 'classes'}:{home / 'lib'}/*"


def java(admin, work, _, report):
    """The SDK enrolls with a token, and lists the one service that its identity may use."""
    classes = java_classes()
    identity = admin.create("/identities", name="java", type="Device", isAdmin=False, enrollment={"ott": True}, roleAttributes=["java"])
    admin.create("/services", name="java service", encryptionRequired=True, roleAttributes=["java"])
    admin.create("/services", name="java hidden", encryptionRequired=True)
    admin.create("/service-policies", name="java", type="Dial", semantic="AnyOf", identityRoles=["#java"], serviceRoles=["#java"])
    token, kept = work / "java.jwt", work / "java.p12"
    token.write_text(admin.get(f"/identities/{identity}")["enrollment"]["ott"]["jwt"])

    def client(*line):
        """The output of the program. The SDK accesses the sockets of the runtime, which requires a flag."""
        whole = ["java", "--add-opens", "java.base/java.net=ALL-UNNAMED", "-cp", classes, "Client", *map(str, line)]
        try:
            done = subprocess.run(whole, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN, cwd=work)
        except subprocess.TimeoutExpired:
            raise Failed(f"did not end within {RUN} s") from None
        expect(done.returncode == 0, f"status {done.returncode}: {tail(done.stderr)}")
        return done.stdout

    def enroll():
        client("enroll", token, kept)
        expect(admin.get(f"/identities/{identity}")["authenticators"].get("cert"), "the identity has no certificate")

    def lists():
        said = client("list", kept, "java service")
        services = [line.removeprefix("name: ").split(" id: ")[0] for line in said.splitlines() if line.startswith("name: ")]
        expect(services == ["java service"], f"it lists {services}: {tail(said)}")
        sessions = [session for session in admin.get("/api-sessions?limit=500") if session["identityId"] == identity]
        expect(sessions, "there is no session of the identity")
    for name, step in (("enroll", enroll), ("list services", lists)):
        try:
            step()
            report(f"java: {name}", None)
        except Failed as reason:
            report(f"java: {name}", str(reason))


PROGRAMS = {**{f"ziti-{version}": (operate, version) for version in ZITI}, "java": (java, "")}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--require", action="store_true", help="what cannot be prepared on this machine fails instead of being skipped")
    arguments.add_argument("--keep", type=pathlib.Path, help="a directory for what the programs printed and the log of the controller")
    arguments.add_argument("--record", type=pathlib.Path, help="write what the commands print with the controller of the program; BINARY is not used")
    arguments.add_argument("binary", type=pathlib.Path)
    arguments.add_argument("programs", nargs="+", choices=PROGRAMS)
    chosen = arguments.parse_args()
    if chosen.record:
        with tempfile.TemporaryDirectory() as place:
            record(chosen.programs[0].removeprefix("ziti-"), pathlib.Path(place), chosen.record)
        return 0
    counts = {"ok": 0, "FAIL": 0, "skip": 0}

    def report(name, reason, verdict="FAIL"):
        verdict = verdict if reason else "ok"
        counts[verdict] += 1
        print(f"{verdict} {name}" + (f": {reason}" if reason else ""), flush=True)

    for name in chosen.programs:
        run, version = PROGRAMS[name]
        with tempfile.TemporaryDirectory() as place:
            work = pathlib.Path(place)
            try:
                with controller(chosen.binary.resolve(), work) as admin:
                    run(admin, work, version, report)
            except Missing as reason:
                report(name, str(reason), "FAIL" if chosen.require or os.environ.get("CI") else "skip")
            except Failed as reason:
                report(name, str(reason))
            if chosen.keep:
                shutil.copytree(work, chosen.keep / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock"))
    print(f"{counts['ok']} passed, {counts['FAIL']} failed, {counts['skip']} skipped")
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
