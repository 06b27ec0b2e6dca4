#!/usr/bin/env python3
"""Writes the image of a release as an OCI archive, which podman and docker load, without either of them.

    image.py CONTAINERFILE VERSION ARCHIVE MACHINE=BINARY...

The Containerfile starts from nothing and copies one file. Equal arguments give an equal archive. `image.py --extract ARCHIVE MACHINE FILE`
checks all digests of an archive and writes the program in it.
"""

import gzip
import hashlib
import io
import json
import pathlib
import sys
import tarfile

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def instructions(text):
    """The instructions of a Containerfile, each with the rest of its line."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def configured(text):
    """The name of the program in the image, and the `config` of the image."""
    config, program = {"Env": [], "Volumes": {}, "ExposedPorts": {}}, None
    for name, rest in instructions(text):
        if name == "FROM" and rest == "scratch":
            continue
        elif name == "COPY":
            source, program = rest.split()
            if source != "overkeep" or not program.startswith("/"):
                raise ValueError(f"the image would hold {rest}")
        elif name == "ENV":
            config["Env"] += rest.split()
        elif name == "USER":
            config["User"] = rest
        elif name == "WORKDIR":
            config["WorkingDir"] = rest
        elif name == "VOLUME":
            config["Volumes"][rest] = {}
        elif name == "EXPOSE":
            config["ExposedPorts"][f"{rest}/tcp"] = {}
        elif name == "ENTRYPOINT":
            config["Entrypoint"] = json.loads(rest)
        elif name == "CMD":
            config["Cmd"] = json.loads(rest)
        elif name == "HEALTHCHECK":
            continue  # only images of Docker's own format have it
        else:
            raise ValueError(f"{name} {rest} is not understood")
    return program, config


def added(archive, name, content, mode=0o644, owner=0, is_folder=False):
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.uid, info.gid = len(content), mode, owner, owner
    info.type = tarfile.DIRTYPE if is_folder else tarfile.REGTYPE
    archive.addfile(info, io.BytesIO(content))


def layer(program, binary, config):
    """The files of the image. The folders of volumes belong to the user that the program runs as."""
    raw, owner = io.BytesIO(), int(config.get("User", "0").split(":")[0])
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for folder in config["Volumes"]:
            added(archive, folder.strip("/"), b"", 0o750, owner, is_folder=True)
        added(archive, program.strip("/"), binary, 0o755)
    return raw.getvalue()


class Blobs:
    def __init__(self):
        self.all = {}

    def add(self, media, content, **more):
        digest = hashlib.sha256(content).hexdigest()
        self.all[digest] = content
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content), **more}


def encoded(value):
    return json.dumps(value, sort_keys=True).encode()


def image(text, version, binaries):
    """The files of the archive by their names."""
    (program, config), blobs, manifests = configured(text), Blobs(), []
    labels = {"org.opencontainers.image.title": "overkeep", "org.opencontainers.image.version": version}
    for machine, binary in binaries.items():
        platform = {"os": "linux", "architecture": ARCHITECTURES[machine]}
        files = layer(program, binary, config)
        described = {
            **platform,
            "config": {**config, "Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(files).hexdigest()]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": blobs.add(CONFIG, encoded(described)),
            "layers": [blobs.add(LAYER, gzip.compress(files, mtime=0))],
        }
        manifests.append(blobs.add(MANIFEST, encoded(manifest), platform=platform))
    all_ = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
    named = blobs.add(INDEX, encoded(all_), annotations={"org.opencontainers.image.ref.name": version})
    return {
        "oci-layout": encoded({"imageLayoutVersion": "1.0.0"}),
        "index.json": encoded({"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]}),
        **{f"blobs/sha256/{digest}": content for digest, content in sorted(blobs.all.items())},
    }


def write(files, path):
    with tarfile.open(path, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            added(archive, name, content)


def extract(path, machine):
    """The program in an archive, and the configuration of the image. Every digest on the way is checked."""
    with tarfile.open(path) as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive.getmembers() if member.isfile()}

    def blob(descriptor):
        content = files["blobs/" + descriptor["digest"].replace(":", "/")]
        found = "sha256:" + hashlib.sha256(content).hexdigest()
        if (found, len(content)) != (descriptor["digest"], descriptor["size"]):
            raise ValueError(f"{descriptor['digest']} has the digest {found}")
        return content

    (named,) = json.loads(files["index.json"])["manifests"]
    platforms = json.loads(blob(named))["manifests"]
    (chosen,) = [one for one in platforms if one["platform"]["architecture"] == ARCHITECTURES[machine]]
    manifest = json.loads(blob(chosen))
    config, (only,) = json.loads(blob(manifest["config"])), manifest["layers"]
    content = gzip.decompress(blob(only))
    if config["rootfs"]["diff_ids"] != ["sha256:" + hashlib.sha256(content).hexdigest()]:
        raise ValueError("the layer is not the one that the configuration names")
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        program = config["config"]["Entrypoint"][0]
        return archive.extractfile(program.strip("/")).read(), config


def main(arguments):
    if arguments[:1] == ["--extract"]:
        archive, machine, target = arguments[1:]
        program, _ = extract(archive, machine)
        pathlib.Path(target).write_bytes(program)
        pathlib.Path(target).chmod(0o755)
        return
    containerfile, version, archive, *binaries = arguments
    binaries = dict(one.split("=", 1) for one in binaries)
    contents = {machine: pathlib.Path(file).read_bytes() for machine, file in binaries.items()}
    write(image(pathlib.Path(containerfile).read_text(), version, contents), archive)


if __name__ == "__main__":
    main(sys.argv[1:])
