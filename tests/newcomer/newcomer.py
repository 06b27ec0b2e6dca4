"""A controller and two machines in network namespaces. See `run`."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

LIMIT = 60                  # seconds until the first byte
PORT = 1280
HELLO = "hello from the other side"
ADDRESSES = {"controller": "10.77.0.1", "server": "10.77.0.2", "alice": "10.77.0.3"}


class Network:
    """Namespaces with one bridge between them."""

    def __init__(self):
        self.names = {name: f"overkeep-{name}-{os.getpid()}" for name in ["bridge", *ADDRESSES]}

    def connect(self):
        for name in self.names.values():
            ip("netns", "add", name)
        bridge = self.names["bridge"]
        ip("-n", bridge, "link", "add", "br0", "type", "bridge")
        ip("-n", bridge, "link", "set", "br0", "up")
        for name, address in ADDRESSES.items():
            own = self.names[name]
            ip("-n", bridge, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", own)
            ip("-n", bridge, "link", "set", name, "master", "br0", "up")
            ip("-n", own, "address", "add", f"{address}/24", "dev", "eth0")
            for link in ("eth0", "lo"):
                ip("-n", own, "link", "set", link, "up")

    def close(self):
        for name in self.names.values():
            subprocess.run(["ip", "netns", "delete", name], check=False)


class Machine:
    """A directory in a namespace."""

    def __init__(self, network, name, binary, place):
        self.namespace, self.place, self.running = network.names[name], place / name, []
        self.place.mkdir()
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("OVERKEEP_")}
        self.env |= {"PATH": f"{binary.parent}:{self.env['PATH']}", "HOME": str(self.place)}

    def command(self, line):
        return ["ip", "netns", "exec", self.namespace, "bash", "-c", line]

    def paste(self, line):
        """Runs a line, and returns what it prints."""
        done = subprocess.run(self.command(line), cwd=self.place, env=self.env, text=True, capture_output=True, timeout=LIMIT)
        if done.returncode:
            fail(f"{line}\n{done.stdout}{done.stderr}")
        return done.stdout

    def start(self, line):
        log = open(self.place / "log", "ab")
        self.running.append(subprocess.Popen(self.command(f"exec {line}"), cwd=self.place, env=self.env, stdout=log, stderr=log))

    def log(self):
        return (self.place / "log").read_text() if (self.place / "log").exists() else ""

    def stop(self):
        for process in self.running:
            process.send_signal(signal.SIGTERM)
        for process in self.running:
            process.wait(20)


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


def fail(reason):
    raise SystemExit(f"FAIL newcomer: {reason}")


def wait_for(what, is_so):
    end = time.monotonic() + LIMIT
    while not is_so():
        if time.monotonic() > end:
            fail(f"{what}: not within {LIMIT} s")
        time.sleep(0.1)


def printed_for(who, text):
    """The command that `publish` prints for the machine of somebody."""
    found = re.search(rf"on the machine of {who}: (overkeep .*)$", text, re.MULTILINE)
    return found.group(1).replace("FILE", f"{who}.json") if found else fail(f"no command for {who}:\n{text}")


def walk(machines):
    controller, server, alice = (machines[name] for name in ADDRESSES)
    (server.place / "site").mkdir()
    (server.place / "site" / "hello.txt").write_text(HELLO)
    server.start("python3 -m http.server 8000 --bind 127.0.0.1 --directory site")
    begin = time.monotonic()
    controller.start(f"overkeep run --listen 0.0.0.0:{PORT} --advertise {ADDRESSES['controller']}:{PORT}")
    wait_for("the controller", (controller.place / "overkeep.redb.sock").exists)
    for machine, name in ((server, "server"), (alice, "alice")):
        machine.paste(controller.paste(f"overkeep invite {name}").splitlines()[-1])
    told = controller.paste("overkeep publish web --host server --target 127.0.0.1:8000 --address web.internal:80 --to alice")
    server.start(printed_for("server", told))
    alice.start(printed_for("alice", told))
    got = []

    def asked():
        done = subprocess.run(alice.command("curl -sS --max-time 5 http://127.0.0.1:8080/hello.txt"), text=True, capture_output=True)
        got.append(done.stdout)
        return done.stdout == HELLO

    wait_for("the first byte", asked)
    took = time.monotonic() - begin
    found = alice.paste("overkeep test -i alice.json web")
    if took > LIMIT or "FAIL" in found:
        fail(f"{took:.1f} s\n{found}")
    print(found, end="")
    print(f"ok newcomer: the first byte between two machines after {took:.1f} s")


def main(binary):
    network, machines = Network(), {}
    try:
        network.connect()
        with tempfile.TemporaryDirectory(prefix="newcomer-") as directory:
            place = pathlib.Path(directory)
            machines = {name: Machine(network, name, binary, place) for name in ADDRESSES}
            try:
                walk(machines)
            except BaseException:
                for name, machine in machines.items():
                    print(f"-- the log of {name} ends:\n{machine.log()[-2000:]}")
                raise
            finally:
                for machine in machines.values():
                    machine.stop()
    finally:
        network.close()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
