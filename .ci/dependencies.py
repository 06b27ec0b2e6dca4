"""What the program is made of: no crate that is banned, no licence that is not allowed, no known defect that nobody answers for.

Reads `cargo metadata`, so that it sees every crate of the lock file on any platform. Prints one line for each problem.
"""

import json
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

# Crates with a known advisory that no release cures: each needs an entry in advisories.toml for as long as it is used.
KNOWN = {"bincode": "RUSTSEC-2025-0141"}


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


def answered(packages, entries):
    """Problems with the advisories: every entry is about a crate in use, at this very version, and says why and until when."""
    versions = {(package["name"], package["version"]) for package in packages}
    names = {name for name, _ in versions}
    for entry in entries:
        label = f"{entry.get('id')} ({entry.get('package')})"
        if (entry.get("package"), entry.get("version")) not in versions:
            yield f"{label}: {entry.get('version')} is not in use; look at the entry again"
        for key in ("reason", "exit"):
            if not entry.get(key, "").strip():
                yield f"{label}: does not say its {key}"
    for name, advisory in KNOWN.items():
        if name in names and not any(entry.get("id") == advisory and entry.get("package") == name for entry in entries):
            yield f"{name}: {advisory} is not acknowledged in advisories.toml"


def main():
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--quiet"]
    packages = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["packages"]
    advisories = tomllib.loads((pathlib.Path(__file__).parent / "advisories.toml").read_text())
    problems = [f"{package['name']} is banned" for package in packages if package["name"] in BANNED]
    for package in packages:
        licence = package["license"] or ""
        if not licence or not allowed(licence):
            problems.append(f"{package['name']} {package['version']}: the licence {licence or '(none)'} is not allowed")
    problems.extend(answered(packages, advisories["acknowledged"]))
    print("\n".join(problems) or f"{len(packages)} crates, all well")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
