"""Clients that execute commands (go/peer, python/peer.py, python/overkeep.py), each a process with one identity."""
import contextlib
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading

import prepare
from controller import Failed, expect, tail

# How many seconds a command may take: a hundred connections on a busy machine.
PATIENCE = 150

KINDS = {
    "go0": (lambda _: prepare.go("./peer"), "Go library 0.23.38"),
    "go1": (lambda _: prepare.go("./peer", "sdk1.mod"), "Go library 1.9.0"),
    "c0": (lambda _: prepare.python("peer.py"), "C library 0.29.3"),
    "overkeep": (lambda binary: [sys.executable, prepare.HERE / "python" / "overkeep.py", binary], "`overkeep forward` and `overkeep host`"),
}


class Peer:
    """A process that executes commands; commands run in parallel, each for at most `patience` seconds."""

    def __init__(self, kind, name, jwt, work, binary, patience=PATIENCE):
        self.patience, self.is_killed = patience, False
        identity = work / f"{name}.json"
        self.kind, self.name, self.numbers, self.answers = kind, name, itertools.count(1), {}
        self.log = work / f"{name}.log"
        self.process = subprocess.Popen(KINDS[kind][0](binary), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(self.log, "ab"),
                                        text=True, start_new_session=True)
        threading.Thread(target=self.read, daemon=True).start()
        if not identity.exists():
            file = work / f"{name}.jwt"
            file.write_text(jwt)
            self.ask("enroll", jwt=str(file), identity=str(identity))
        self.ask("load", identity=str(identity))

    def read(self):
        for line in self.process.stdout:
            answer = json.loads(line)
            self.answers.pop(answer["id"]).put(answer)
        for waiting in list(self.answers.values()):
            waiting.put({"failure": f"the program ended: {tail(self.log.read_text(errors='replace'), 3)}"})

    def begin(self, do, **more):
        """Sends a command and returns a function that waits for its result."""
        number, answer = next(self.numbers), queue.Queue()
        self.answers[number] = answer
        try:
            self.process.stdin.write(json.dumps({"id": number, "do": do, **more}) + "\n")
            self.process.stdin.flush()
        except OSError as error:
            raise Failed(f"{self.name}: {error}") from None

        def end(seconds=None):
            seconds = seconds or self.patience
            try:
                got = answer.get(timeout=seconds)
            except queue.Empty:
                raise Failed(f"{self.name} did not {do} within {seconds} s: {tail(self.log.read_text(errors='replace'), 3)}") from None
            if "failure" in got:
                raise Failed(f"{self.name} {do}: {got['failure']}")
            return got.get("done")
        return end

    def ask(self, do, seconds=None, **more):
        return self.begin(do, **more)(seconds)

    def refused(self, do, seconds=None, **more):
        """Sends a command that must fail, and returns the reason."""
        try:
            self.ask(do, seconds, **more)
        except Failed as refusal:
            return str(refusal)
        raise Failed(f"{self.name} could {do}")

    def carry(self, service, size, chunk=32 << 10, connections=1, **more):
        """Sends bytes through an echoing host and back; the checksums must be equal. Also waits for the end of the stream, unless the dialer
        has to `leave` before: a host with the C library cannot close its side at once (see python/peer.py).
        """
        outcomes = self.ask("carry", service=service, bytes=size, chunk=chunk, connections=connections, **more)
        wrong = [outcome for outcome in outcomes
                 if outcome.get("failure") or outcome["bytes"] != size or outcome["sent"] != outcome["received"]]
        expect(not wrong, f"{len(wrong)} of {len(outcomes)} connections of {self.name} failed, such as {wrong[:1]}")

    def kill(self):
        """Also the programs that it has started."""
        if not self.is_killed:
            self.is_killed = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
