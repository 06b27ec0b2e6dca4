"""What the program is made of: no crate that is banned, no licence that is not allowed, no known defect that nobody answers for.

Reads `cargo metadata`, so that it sees every crate of the lock file on any platform. Prints one line for each problem.
"""

import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib

# There is one crypto backend, ring, and one TLS library, rustls; `rsa` has a timing defect without a cure (RUSTSEC-2023-0071).
BANNED = {"aws-lc-rs", "aws-lc-sys", "native-tls", "openssl", "openssl-sys", "rsa"}

ALLOWED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC", "MIT",
    "MIT-0", "Unicode-3.0", "Unlicense", "Zlib",
}

def allowed(expression):
    """Whether an SPDX expression can be met with what is allowed. `/` is how OR was written once; AND binds tighter than OR."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))

    def alternatives():
        met = together()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            met = together() or met
        return met

    def together():
        met = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            met = one() and met
        return met

    def one():
        name = tokens.pop(0)
        if name == "(":
            met = alternatives()
            tokens.pop(0)
            return met
        if tokens and tokens[0] == "WITH":
            name = " ".join([name, tokens.pop(0), tokens.pop(0)])
        return name in ALLOWED

    met = alternatives()
    return met and not tokens


def number(text):
    """A version as numbers; a pre-release counts as its release."""
    parts = [int(part) for part in re.match(r"[0-9.]+", text).group().strip(".").split(".")]
    return tuple(parts + [0] * (3 - len(parts)))


def next_breaking(version):
    """The first version that a caret excludes: https://doc.rust-lang.org/cargo/reference/specifying-dependencies.html"""
    major, minor, patch = version
    return (major + 1, 0, 0) if major else (0, minor + 1, 0) if minor else (0, 0, patch + 1)


def meets(version, requirement):
    """Whether a version meets a requirement such as `>=0.11.6, <0.12.0` or `^0.3.26`."""
    found = number(version)
    for part in requirement.split(","):
        sign, wanted = re.match(r"\s*(>=|<=|>|<|=|\^)?\s*([0-9].*)", part).groups()
        wanted = number(wanted)
        met = {
            ">=": found >= wanted, "<=": found <= wanted, ">": found > wanted, "<": found < wanted, "=": found == wanted,
            "^": wanted <= found < next_breaking(wanted),
        }[sign or "^"]
        if not met:
            return False
    return True


def concerned(packages, known):
    """What of the known advisories concerns crates in use: (advisory, package, version), each once."""
    found = set()
    for advisory in known:
        good = advisory.get("patched", []) + advisory.get("unaffected", [])
        for package in packages:
            name, version = package["name"], package["version"]
            if name == advisory["package"] and not any(meets(version, requirement) for requirement in good):
                found.add((advisory["id"], name, version))
    return sorted(found)


def database(directory):
    """The advisories of a copy of the whole database (`crates/NAME/RUSTSEC-*.md`, TOML in front); those that were withdrawn left out."""
    for path in sorted(pathlib.Path(directory).glob("crates/*/RUSTSEC-*.md")):
        front = re.search(r"```toml\n(.*?)```", path.read_text(), re.DOTALL)
        read = tomllib.loads(front.group(1))
        if "withdrawn" not in read["advisory"]:
            yield {**read["advisory"], **read.get("versions", {})}


def answered(packages, entries, known):
    """Problems with the advisories: each that concerns a crate in use is accepted, and every entry that accepts one is about a crate in
    use, at this very version, and says why and until when."""
    versions = {(package["name"], package["version"]) for package in packages}
    for entry in entries:
        label = f"{entry.get('id')} ({entry.get('package')})"
        if (entry.get("package"), entry.get("version")) not in versions:
            yield f"{label}: {entry.get('version')} is not in use; look at the entry again"
        for key in ("reason", "exit"):
            if not entry.get(key, "").strip():
                yield f"{label}: does not say its {key}"
    accepted = {(entry.get("id"), entry.get("package"), entry.get("version")) for entry in entries}
    for advisory, name, version in concerned(packages, known):
        if (advisory, name, version) not in accepted:
            yield f"{name} {version}: {advisory} is not accepted in advisories.toml"


def stale(listed, today):
    """A warning, if the list of known advisories is old."""
    age = (today - listed["checked"]).days
    return [f"warning: known-advisories.toml was checked {age} days ago; look for advisories since"] if age > listed["lasts"] else []


def main():
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--quiet"]
    packages = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["packages"]
    read = lambda name: tomllib.loads((pathlib.Path(__file__).parent / name).read_text())
    advisories, listed = read("advisories.toml"), read("known-advisories.toml")
    known = listed["advisory"] + list(database(os.environ["ADVISORY_DB"]) if "ADVISORY_DB" in os.environ else [])
    problems = [f"{package['name']} is banned" for package in packages if package["name"] in BANNED]
    for package in packages:
        licence = package["license"] or ""
        if not licence or not allowed(licence):
            problems.append(f"{package['name']} {package['version']}: the licence {licence or '(none)'} is not allowed")
    problems.extend(answered(packages, advisories["acknowledged"], known))
    for warning in stale(listed, datetime.date.today()):
        print(warning)
    print("\n".join(problems) or f"{len(packages)} crates, all well")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
