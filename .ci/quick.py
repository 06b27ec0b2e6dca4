"""Runs the checks of the crates that a change touches. `plan` says which; test_quick.py tests it."""
import json
import os
import pathlib
import subprocess
import sys
import time
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = "overkeep"    # the root package
PRETTIER = "prettier@3.6.2"
SCRIPTS = (".js", ".mjs", ".css")
# Files of the root package that decide what its library is. Others, such as documents, are only read by tests.
COMPILED = ("src/", "build.rs", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "controller.toml")
# Integration tests have the name of their module. These modules, of the root package and of crates, have tests under other names, too.
TESTED_BY = {
    "access": ["access", "access_changes"], "admin_socket": ["command_line", "short_commands"],
    "api_tokens": ["api_tokens"], "authentication": ["second_factors", "passwords", "signer_logins", "api_tokens", "key_sets"],
    "certificates": ["certificates"], "client": ["endpoint"], "change": ["crud", "conflicts", "preview"], "change_mode": ["preview"], "built_in_router": ["built_in_router"], "circuit": ["circuits"], "circuits": ["circuits"], "clock": ["time"], "cli": ["command_line", "short_commands", "contexts"],
    "config": ["configuration"], "controller": ["start"], "enrollment": ["certificates", "refusals", "end_to_end::enrollment"],
    "entity": ["kinds", "crud", "upgrades"], "events": ["events"], "explain": ["explain", "explain_verdicts"], "fabric": ["router", "control"], "hidden_text": ["hidden_characters"], "history": ["history"],
    "hosting": ["unread", "unmatchable"], "listener": ["hostile", "request_framing"], "maintenance": ["backup", "integrity", "repair"], "metrics": ["metrics"],
    "online": ["control::seen"], "network_document": ["network_document"], "page": ["page"], "posture": ["posture", "posture_restarts"], "preview": ["preview"], "rest": ["contract", "crud", "lists", "wire_quirks"], "router_configuration": ["router_configuration"], "schedule": ["upgrades::schedule"], "schema": ["contract"],
    "sealed_keys": ["sealed_keys"], "snapshots": ["operations::snapshots", "backup::snapshots"], "session_tokens": ["control::session_tokens"], "store": ["store"], "traffic": ["traffic"],
}
# Tests of the root package that read files which are not compiled.
READ_BY = {"docs/": ["documentation", "architecture"], "README.md": ["documentation"], "CHANGELOG.md": ["documentation"], "controller.toml": ["documentation"],
           "schema/": ["contract", "network_document"], "examples/packaging/": ["documentation"], "examples/backup.sh": ["backup_script"],
           ".ci/": ["tiers"]}


@dataclass
class Package:
    """A package of the workspace: its folder, relative to the root, and the packages of the workspace that it uses."""
    name: str
    folder: str
    uses: set = field(default_factory=set)


@dataclass
class Plan:
    """What to run. The root package is never among `packages`: its tests take longer, so that only some are chosen."""
    packages: list          # changed, and those that use them: clippy and all tests
    changed: set
    root: bool              # the library of the root package or what it uses changed: clippy and the tests beside the code
    filters: list           # integration tests of the root package
    scripts: list           # for prettier
    is_ci: bool             # the tests of the scripts in .ci


def owner(file, packages):
    """The package whose folder holds a file: the innermost."""
    inside = [package for package in packages if not package.folder or file.startswith(package.folder + "/")]
    return max(inside, key=lambda package: len(package.folder), default=None)


def filters_of(file):
    """The integration tests of the root package that belong to a file. Of a crate, only those in the table: its own tests are with it."""
    path = pathlib.PurePosixPath(file)
    found = [test for start, tests in READ_BY.items() if file.startswith(start) for test in tests]
    if file.startswith("tests/promises/") and path.suffix == ".rs":
        parts = [part for part in path.with_suffix("").parts[2:] if part not in ("mod", "main")]
        # The harness serves all tests: that it compiles is enough here.
        found += ["::".join(parts)] if parts and parts[0] != "harness" else []
    elif file.startswith("src/") and path.suffix == ".rs":
        modules = [part for part in path.with_suffix("").parts[1:] if part not in ("mod", "lib", "main", "testing")]
        found += modules + [test for module in modules for test in TESTED_BY.get(module, [])]
    elif file.startswith("crates/") and path.parts[2:3] == ("src",) and path.suffix == ".rs":
        found += [test for module in path.with_suffix("").parts[1:] for test in TESTED_BY.get(module, [])]
    elif file.startswith("crates/rest/src/"):
        found += ["page"] if "/page/" in file else ["contract"]
    return [f"{name}::" for name in found]


def plan(files, packages):
    """What a change of these files asks for."""
    root = next(package for package in packages if not package.folder)
    changed, filters, is_root = set(), set(), False
    for file in files:
        package = owner(file, packages)
        filters.update(filters_of(file))
        if package is root:
            is_root |= file.startswith(COMPILED)
        else:
            changed.add(package.name)
    # Everything depends on these.
    if {"Cargo.lock", "Cargo.toml", "rust-toolchain.toml"} & set(files):
        changed.update(package.name for package in packages if package is not root)
    users = {package.name for package in packages if package.uses & changed}
    is_root |= root.name in users
    return Plan(
        packages=sorted((changed | users) - {root.name}),
        changed=changed,
        root=is_root,
        filters=sorted(filters),
        scripts=sorted(file for file in files if file.endswith(SCRIPTS) and "/vendor/" not in file),
        is_ci=any(file.startswith(".ci/") for file in files),
    )


def output(*line):
    return subprocess.run(line, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def workspace():
    """The packages of the workspace, as Cargo knows them."""
    metadata = json.loads(output("cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"))
    members = [package for package in metadata["packages"] if package["id"] in metadata["workspace_members"]]
    names = {package["name"] for package in members}
    found = []
    for package in members:
        folder = pathlib.Path(package["manifest_path"]).parent.relative_to(ROOT).as_posix()
        found.append(Package(package["name"], "" if folder == "." else folder, {used["name"] for used in package["dependencies"]} & names))
    return found


def changed_files():
    """What differs from the commit at which the branch left main, and what is not committed. A deleted file is among them."""
    named = os.environ.get("OVERKEEP_BASE")
    known = [name for name in ([named] if named else ["main", "origin/main"])
             if subprocess.run(["git", "rev-parse", "--verify", "--quiet", name + "^{commit}"], cwd=ROOT, capture_output=True).returncode == 0]
    if not known:
        sys.exit(f"there is no {named or 'main'} to compare with; OVERKEEP_BASE names a commit")
    base = output("git", "merge-base", known[0], "HEAD").strip()
    listed = output("git", "diff", "--name-only", "--no-renames", base) + output("git", "ls-files", "--others", "--exclude-standard")
    return sorted(set(listed.splitlines()))


def commands(chosen):
    """The checks, those that end soon first."""
    yield "format", ["cargo", "fmt", "--all", "--check"]
    scripts = [file for file in chosen.scripts if (ROOT / file).exists()]
    if scripts:
        yield "format of scripts", ["npx", "--yes", "--prefer-offline", PRETTIER, "--log-level", "warn", "--check", *scripts]
    if chosen.is_ci:
        yield "tests of .ci", [sys.executable, "-B", "-m", "unittest", "discover", "-q", "-s", ".ci", "-p", "test_*.py"]
    named = [word for name in chosen.packages for word in ("-p", name)]
    if named:
        yield "clippy of crates", ["cargo", "clippy", "--locked", *named, "--all-targets", "--", "-D", "warnings"]
        yield "tests of crates", ["cargo", "test", "--locked", *named, "--lib", "--tests"]
    if chosen.root:
        yield "clippy", ["cargo", "clippy", "--locked", "-p", PROGRAM, "--lib", "--bins", "--", "-D", "warnings"]
        yield "tests beside the code", ["cargo", "test", "--locked", "-p", PROGRAM, "--lib"]
    if chosen.filters:
        yield "integration tests", ["cargo", "test", "--locked", "-p", PROGRAM, "--test", "promises", "--", *chosen.filters]


def main():
    files = changed_files()
    if not files:
        print("nothing changed")
        return 0
    chosen = plan(files, workspace())
    begin, failed, passed = time.monotonic(), [], 0
    for name, line in commands(chosen):
        print(f"== {name}: {' '.join(line[:12])}{' ...' if len(line) > 12 else ''}", flush=True)
        if "--plan" in sys.argv[1:]:
            continue
        start = time.monotonic()
        done = subprocess.run(line, cwd=ROOT).returncode == 0
        print(f"{'ok' if done else 'FAIL'} {name} ({time.monotonic() - start:.0f} s)", flush=True)
        if done:
            passed += 1
        else:
            failed.append(name)
            break           # what follows takes longer and would fail, too
    print(f"{len(files)} files changed, {time.monotonic() - begin:.0f} s; the gate is .ci/run")
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
