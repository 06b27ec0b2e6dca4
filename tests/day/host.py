"""A host with nothing but the package: an empty root, and stand-ins for the programs of the system that the pages name."""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "interop"))
from controller import expect, free_port, tail  # noqa: E402

COMMAND = 120               # seconds: one block of a page

STAND_INS = {
    # Everything that the day runs is noted. The status 3 of a plan says that there are changes, which the pages apply next.
    "overkeep": '''printf '%s\\n' "$*" >> "$HOST/ran"
status=0
"$ROOT/usr/bin/overkeep" "$@" || status=$?
case $1:$status in plan:3) exit 0 ;; *) exit $status ;; esac''',
    "dpkg": 'exec /usr/bin/dpkg --root="$ROOT" --force-depends "$@"',
    "editor": 'mv "$HOST/controller.toml" "$1"',
    "sudo": 'shift 2; exec "$@"',
    # The unit's own command line, in its directory, until the service is ready.
    "systemctl": '''case $1 in
start)
    line=$(sed -n 's/^ExecStart=//p' "$ROOT/lib/systemd/system/overkeep.service" | sed "s| /| $ROOT/|g; s|^|$ROOT|")
    cd "$ROOT/var/lib/overkeep"
    printf '%s\\n' "${line#*/overkeep }" >> "$HOST/ran"
    env -u OVERKEEP_DATA setsid $line >> "$HOST/log" 2>&1 < /dev/null &
    echo $! > "$HOST/pid"
    for _ in $(seq 600); do
        [ -S overkeep.redb.sock ] && "$ROOT/usr/bin/overkeep" show version --data overkeep.redb > /dev/null 2>&1 && exit
        kill -0 "$(cat "$HOST/pid")" 2> /dev/null || { rm "$HOST/pid"; break; }
        sleep 0.1
    done
    exit 1 ;;
stop)
    pid=$(cat "$HOST/pid")
    kill "$pid"
    while kill -0 "$pid" 2> /dev/null; do sleep 0.1; done
    rm "$HOST/pid" ;;
esac''',
}

# What the scripts of the package call, with the flags that busybox lacks.
IN_THE_ROOT = {
    "adduser": """for name; do :; done
echo "$name:x:100:100::/:/bin/false" >> /etc/passwd
echo "$name:x:100:" >> /etc/group""",
    "install": """for word; do
    case $word in --directory) ;; --owner=*) owner=${word#*=} ;; --group=*) group=${word#*=} ;; --mode=*) mode=${word#*=} ;; *) path=$word ;; esac
done
mkdir -p "$path"
chown "$owner:$group" "$path"
chmod "$mode" "$path" """,
}


class Host:
    def __init__(self, place, busybox, package):
        self.place, self.root, self.work = place, place / "root", place / "work"
        self.log, self.data = place / "log", self.root / "var/lib/overkeep/overkeep.redb"
        self.port, self.metrics = free_port(), free_port()
        self.ran_blocks = []
        for directory in ("bin", "work/dist", "home", "root/bin", "root/sbin", "root/etc", "root/var/lib/dpkg/info", "root/var/lib/dpkg/updates"):
            (place / directory).mkdir(parents=True)
        (self.root / "var/lib/dpkg/status").touch()
        shutil.copy(busybox, self.root / "bin/busybox")
        for applet in ("sh", "chown", "chmod", "mkdir"):
            (self.root / "bin" / applet).symlink_to("busybox")
        (self.root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
        (self.root / "etc/group").write_text("root:x:0:\n")
        for name, script in IN_THE_ROOT.items():
            path = self.root / "sbin" / name
            path.write_text(f"#!/bin/sh\nset -e\n{script}\n")
            path.chmod(0o755)
        for name, script in STAND_INS.items():
            path = place / "bin" / name
            path.write_text(f"#!/usr/bin/env bash\nset -eu\n{script}\n")
            path.chmod(0o755)
        shutil.copy(package, self.work / "dist")
        # What an operator edits in the packaged file, whose passwords it keeps.
        (place / "controller.toml").write_text(
            f'listen = "127.0.0.1:{self.port}"\n[http]\nmax-connections = 1000\n[passwords]\ncost = 10\nmin-length = 12\nmax-attempts = 10\nlockout-minutes = 1\n'
            f'[metrics]\nlisten = "127.0.0.1:{self.metrics}"\n'
            f'[snapshots]\ndirectory = "{place}/snapshots"\n')
        self.environment = {"PATH": f"{place}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(place / "home"), "HOST": str(place), "ROOT": str(self.root),
                            "OVERKEEP_DATA": str(self.data), "LC_ALL": "C.UTF-8"}

    def run(self, script, status=0, **replaced):
        """Runs a script as written, with the paths of the root; returns what it printed."""
        for path in ("/etc/overkeep/", "/var/lib/overkeep"):
            script = re.sub(rf"(?<![\w/]){path}", f"{self.root}{path}", script)
        for old, new in replaced.get("words", {}).items():
            script = script.replace(old, new)
        done = subprocess.run(["bash", "-c", f"set -euo pipefail\n{script}"], cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=COMMAND, check=False)
        said = done.stdout + done.stderr
        log = self.log.read_text(errors="replace") if self.log.exists() else ""
        expect(done.returncode == status, f"status {done.returncode} of\n{script}\n{said[-3000:]}\nthe log ends: {tail(log)}")
        return said

    def repackage(self, package, version):
        """The package with another version, as the next release."""
        built = self.work / "overkeep_NEW.deb"
        self.run(f'dpkg-deb -R {package} ../new && sed -i "s/^Version: .*/Version: {version}/" ../new/DEBIAN/control && dpkg-deb -b --root-owner-group -Znone ../new {built}')

    def commands(self):
        return (self.place / "ran").read_text().splitlines()

    def end(self):
        pid = self.place / "pid"
        if pid.exists():
            subprocess.run(["kill", "-KILL", pid.read_text().strip()], stderr=subprocess.DEVNULL, check=False)
