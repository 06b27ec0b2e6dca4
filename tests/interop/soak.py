"""A long run with constant change: dials, binds, killed clients and hosts, changed policies, sessions and identities, ended circuits.

Clients are the libraries of traffic.py. Nothing may be left of what has ended: no circuit, channel, terminator or open file, and memory
must not grow without limit. The data file must be sound at the end. Prints a line per part with memory and files, their growth at the end,
and `ok soak` or `FAIL soak: reason`.
"""
import collections
import dataclasses
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import prepare
from controller import Failed, expect, until
from network import SOON, network
from peers import KINDS

# The allowed growth between the first fifth of the time and the end, with nothing open at both times.
MORE_MIB, MORE_FILES = 24, 8
PATIENCE = 20       # seconds for one command of a client; a change meanwhile may leave a library waiting forever
PART = 600          # seconds between two checks of what is left
REASON = 300        # characters of a failure by which failures are counted
CACHE_MIB = "8"     # of the data file: a small cache is full after the first part, so that what grows later is something else


class Member:
    """An identity and its program, which is killed and started again."""

    def __init__(self, running, kind, name, service=None):
        self.running, self.kind, self.name, self.service, self.peer = running, kind, name, service, running.join(kind, name)

    def restart(self):
        self.peer = self.running.rejoin(self.peer, patience=PATIENCE)
        if self.service:
            self.host()

    def host(self):
        self.peer.ask("host", name=self.service, service=self.service)

    def has_ended(self): return self.peer.process.poll() is not None


@dataclasses.dataclass
class Rest:
    """What a part leaves: seconds since the start, memory in MiB, open files."""
    seconds: float
    memory: float
    files: int

    def __str__(self): return f"{self.seconds / 60:5.1f} min: {self.memory:6.1f} MiB, {self.files} files"


def grown(rests):
    """The growth since the first part, and what it would be in an hour, by the line through all parts with the least squares."""
    first, last = rests[0], rests[-1]
    text = f"growth in {(last.seconds - first.seconds) / 60:.0f} min: {last.memory - first.memory:+.1f} MiB, {last.files - first.files:+d} files"
    if len(rests) < 3:
        return text
    at, memory = statistics.linear_regression([one.seconds / 3600 for one in rests], [one.memory for one in rests])
    return f"{text}; trend {at:+.1f} MiB per hour from {memory:.1f} MiB"


class Soak:
    def __init__(self, running, seed):
        self.began, self.why = time.monotonic(), collections.Counter()
        self.running, self.random, self.counts = running, random.Random(seed), {}
        self.policies, self.services = {}, {}
        self.lock = threading.Lock()
        for kind in KINDS:
            self.services[kind], self.policies[kind] = running.service(kind)
        self.hosts = [Member(running, kind, f"host-{kind}", kind) for kind in KINDS]
        self.dialers = [Member(running, kind, f"dialer-{kind}") for kind in KINDS]
        for host in self.hosts:
            host.host()

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    # -- traffic: it may fail only because of the other activities --
    def traffic(self, member, end):
        rng = random.Random(member.name)
        while time.monotonic() < end:
            service = rng.choice(list(self.services))
            size, connections = rng.choice([(0, 1), (1 << 10, 20), (200 << 10, 4), (2 << 20, 1)])
            try:
                member.peer.carry(service, size, connections=connections, leave=service == "c0" and size > 0)
                self.count("carried")
            except Failed as failure:
                self.count("cut")
                self.why[re.sub("[0-9]+", "#", str(failure))[:REASON]] += 1
                time.sleep(0.5)

    # -- changes --
    def kill_dialer(self): self.random.choice(self.dialers).restart()
    def kill_host(self): self.random.choice(self.hosts).restart()

    def take_policy(self):
        service, right = self.random.choice(list(self.services)), self.random.choice(["Dial", "Bind"])
        self.running.admin.raw("DELETE", f"/service-policies/{self.policies[service][right]}")
        time.sleep(self.random.uniform(0, 2))
        self.policies[service][right] = self.running.admin.create(
            "/service-policies", name=f"{service} {right}", type=right, semantic="AnyOf", identityRoles=["#all"],
            serviceRoles=[f"@{self.services[service]}"])

    def end_sessions(self):
        name = self.random.choice(self.dialers + self.hosts).name
        identity = self.running.identity(name)["id"]
        for session in self.running.admin.get("/api-sessions?limit=500"):
            if session["identityId"] == identity:
                self.running.admin.raw("DELETE", f"/api-sessions/{session['id']}")

    def disable(self):
        identity = self.running.identity(self.random.choice(self.dialers).name)["id"]
        self.running.admin.ask("POST", f"/identities/{identity}/disable", {"durationMinutes": 0})
        time.sleep(self.random.uniform(0, 2))
        self.running.admin.ask("POST", f"/identities/{identity}/enable", {})

    def end_circuit(self):
        for circuit in self.running.see("circuits?limit=1"):
            try:
                self.running.admin.raw("DELETE", f"/overkeep/v1/circuits/{circuit['id']}")
            except Failed as gone:
                expect(" 404" in str(gone), str(gone))

    def churn(self, end):
        actions = [self.kill_dialer, self.kill_host, self.take_policy, self.end_sessions, self.disable, self.end_circuit, self.end_circuit]
        while time.monotonic() < end:
            action = self.random.choice(actions)
            # libziti 0.29.3 crashes when its channel ends while it binds again (model_map_remove_key, without a channel).
            for member in filter(Member.has_ended, self.hosts + self.dialers):
                self.count(f"{member.kind} ended by itself")
                action = member.restart
            try:
                action()
                self.count(action.__name__)
            except Failed as failure:
                # The first request of a new program may fail because of another change; the controller itself must answer.
                expect("answered 5" not in str(failure) and self.running.admin.process.poll() is None, str(failure))
                self.count(f"{action.__name__} met another change")
            time.sleep(self.random.uniform(0.2, 1.5))

    # -- the rest --
    def rest(self):
        """Waits until nothing is open after every client was killed. Returns the memory and open files of the process."""
        left = lambda: {what: len(self.running.see(what)) for what in ("circuits", "channels")} | {"terminators": len(self.running.admin.get("/terminators"))}
        until(lambda: not any(left().values()), 2 * SOON, f"left are {left()}")
        time.sleep(3)       # until interrupted connections are closed
        process = pathlib.Path("/proc") / str(self.running.admin.process.pid)
        # Without the pages of the program, which come and go with the memory of the machine.
        memory = next(int(line.split()[1]) for line in (process / "status").read_text().splitlines() if line.startswith("RssAnon:"))
        return Rest(time.monotonic() - self.began, memory / 1024, len(list((process / "fd").iterdir())))

    def part(self, seconds):
        end = time.monotonic() + seconds
        threads = [threading.Thread(target=self.traffic, args=(member, end)) for member in self.dialers]
        for thread in threads: thread.start()
        self.churn(end)
        for member in self.hosts + self.dialers:
            member.peer.kill()      # which ends pending commands
        for thread in threads: thread.join()
        return self.rest()

    def reach_everything(self):
        """Every client reaches every service once nothing changes any more."""
        for member in self.dialers:
            for service in self.services:
                until(lambda: self.carries(member, service), 4 * SOON, f"{member.name} does not reach {service}")
        for member in self.hosts + self.dialers:
            member.peer.kill()

    def carries(self, member, service):
        try:
            for ended in filter(Member.has_ended, [*self.hosts, member]):
                ended.restart()
            member.peer.carry(service, 1 << 10, connections=1, leave=service == "c0")
            return True
        except Failed:
            return False

    def again(self):
        for member in self.hosts + self.dialers:
            member.restart()


def main(binary, seconds):
    prepare.CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="soak-") as directory:
        work = pathlib.Path(directory)
        with network(binary, work, OVERKEEP_STORE_CACHE_MIB=CACHE_MIB) as running:
            soak = Soak(running, 1)
            rests = [soak.part(max(seconds / 5, 20))]
            print(f"{rests[0]}, {soak.counts}", flush=True)
            left = seconds * 4 / 5
            while left > 0:
                soak.again()
                rests.append(soak.part(min(left, PART)))
                left -= PART
                print(f"{rests[-1]}, {soak.counts}", flush=True)
            print(grown(rests), flush=True)
            first, last = rests[0], rests[-1]
            for why, times in soak.why.most_common(5):
                print(f"cut {times} times: {why}", flush=True)
            expect(last.memory <= first.memory + MORE_MIB, f"{first.memory:.0f} MiB at first, {last.memory:.0f} at the end")
            expect(last.files <= first.files + MORE_FILES, f"{first.files} open files at first, {last.files} at the end")
            soak.again()
            soak.reach_everything()
        checked = subprocess.run([binary, "check", work / "overkeep.redb"], capture_output=True, text=True)
        expect(checked.returncode == 0, f"the check of the data file: {checked.stdout}{checked.stderr}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main(pathlib.Path(sys.argv[1]).resolve(), float(sys.argv[2]) if len(sys.argv) > 2 else 3600)
    except Failed as failure:
        sys.exit(f"FAIL soak: {failure}")
    print("ok soak")
