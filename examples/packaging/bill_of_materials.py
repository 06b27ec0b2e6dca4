#!/usr/bin/env python3
"""Prints a bill of materials of the binary (CycloneDX 1.5, JSON): every crate that it is compiled from, by Cargo.lock. The crates of the
workspace are the program itself, and are no parts of it.

    bill_of_materials.py TARGET

TARGET is the target that was built for, such as x86_64-unknown-linux-musl. Crates that only tests need are left out.
"""
import json
import subprocess
import sys
import tomllib


def compiled(metadata):
    """The ids of the crates that the program needs at run time or to be built, without those of its own workspace."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = metadata["resolve"]["root"]
    open_, found = [root], set()
    while open_:
        for dependency in nodes[open_.pop()]["deps"]:
            is_needed = any(kind["kind"] in (None, "build") for kind in dependency["dep_kinds"])
            if is_needed and dependency["pkg"] not in found:
                found.add(dependency["pkg"])
                open_.append(dependency["pkg"])
    return root, found - set(metadata["workspace_members"])


def component(package, checksums, kind="library"):
    name, version = package["name"], package["version"]
    purl = f"pkg:cargo/{name}@{version}"
    shown = {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if package["license"]:
        # Crates used to write OR as a slash.
        shown["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum := checksums.get((name, version)):
        shown["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return shown


def main(target):
    line = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    metadata = json.loads(subprocess.run(line, check=True, capture_output=True).stdout)
    with open("Cargo.lock", "rb") as lock:
        checksums = {(one["name"], one["version"]): one.get("checksum") for one in tomllib.load(lock)["package"]}
    packages = {package["id"]: package for package in metadata["packages"]}
    root, found = compiled(metadata)
    parts = sorted((component(packages[one], checksums) for one in found), key=lambda part: part["bom-ref"])
    json.dump({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(packages[root], checksums, "application")},
        "components": parts,
    }, sys.stdout, indent=1)
    print()


if len(sys.argv) != 2:
    sys.exit(__doc__)
main(sys.argv[1])
