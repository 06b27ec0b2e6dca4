"""Clients of one forwarded port, and everything that changes around them. See `soak`."""
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

CLIENTS = 6
PATIENCE = 40               # seconds until everything works again
SIZES = 1, 1_000, 70_000, 1_000_000
FILES, MEMORY = 8, 24 << 20  # how much more may be open and in memory at the end than after a quarter of the time


def fail(reason):
    raise SystemExit(f"FAIL soak: {reason}")


def echo():
    """A server that sends back what it receives."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection):
        try:
            with connection:
                while data := connection.recv(65536):
                    connection.sendall(data)
        except OSError:
            pass

    def accept():
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


class Scene:
    def __init__(self, binary, place):
        self.binary, self.place = binary, place
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("OVERKEEP_")}
        self.env |= {"XDG_RUNTIME_DIR": str(place)}
        self.log = open(place / "log", "ab")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.at = f"127.0.0.1:{free.getsockname()[1]}"
        self.controller = None
        self.servers = [echo(), echo()]
        self.good = self.bad = 0
        self.lock = threading.Lock()

    def start(self, *arguments):
        return subprocess.Popen([self.binary, *arguments], cwd=self.place, env=self.env, stdout=self.log, stderr=self.log)

    def ran(self, *arguments, text=None, check=True):
        done = subprocess.run([self.binary, *arguments], cwd=self.place, env=self.env, input=text, text=True, capture_output=True, timeout=60)
        if check and done.returncode:
            fail(f"{arguments}: {done.stdout}{done.stderr}")
        return done.stdout

    def start_controller(self):
        self.controller = self.start("run", "--listen", self.at)
        end = time.monotonic() + PATIENCE
        while subprocess.run([self.binary, "list", "services", "-o", "name"], cwd=self.place, env=self.env, capture_output=True).returncode:
            if time.monotonic() > end:
                fail("the controller does not start")
            time.sleep(0.1)

    def client(self, port, stop):
        while not stop.is_set():
            data = random.randbytes(random.choice(SIZES))
            try:
                with socket.create_connection(("127.0.0.1", port), 10) as connection:
                    connection.settimeout(10)
                    sender = threading.Thread(target=send, args=(connection, data), daemon=True)
                    sender.start()
                    back = bytearray()
                    while part := connection.recv(65536):
                        back += part
                    sender.join(10)
                    if not data.startswith(back):
                        fail("what came back is not what was sent")
                    whole = back == data
            except OSError:
                whole = False
            with self.lock:
                self.good, self.bad = self.good + whole, self.bad + (not whole)
            if not whole:
                time.sleep(0.2)

    def change(self, turn, host):
        """One change of what the clients depend on."""
        name = f"more-{turn % 5}"
        if turn % 4 == 0:
            data = json.dumps({"protocol": "tcp", "address": "127.0.0.1", "port": random.choice(self.servers)})
            self.ran("update", "config", "web.host.v1", "--member-data", data)
        elif turn % 4 == 1:
            self.ran("publish", name, "--host", "server", "--target", f"127.0.0.1:{self.servers[0]}", "--to", "alice", check=False)
        elif turn % 4 == 2:
            self.ran("unpublish", f"more-{(turn - 1) % 5}", check=False)
        else:
            for session in self.ran("list", "api-sessions", "-o", "name").split():
                self.ran("delete", "api-session", session, check=False)
        if turn % 9 == 8:
            host.send_signal(signal.SIGHUP)
        if turn % 12 == 11:
            self.controller.send_signal(signal.SIGKILL if turn % 24 == 11 else signal.SIGTERM)
            self.controller.wait(PATIENCE)
            self.start_controller()

    def works(self, port):
        """Waits until bytes come back again."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port), 5) as connection:
                    connection.settimeout(5)
                    connection.sendall(b"x")
                    if connection.recv(1) == b"x":
                        return
            except OSError:
                pass
            if time.monotonic() > end:
                fail(f"nothing comes back within {PATIENCE} s")
            time.sleep(0.2)


def send(connection, data):
    try:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def used(process):
    """Open files, and resident bytes."""
    proc = pathlib.Path("/proc") / str(process.pid)
    memory = int((proc / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return len(list((proc / "fd").iterdir())), memory


def soak(scene, seconds):
    scene.start_controller()
    (scene.place / "identities").mkdir()
    for name, path in (("server", "identities/server.json"), ("alice", "alice.json")):
        scene.ran("enroll", "-", "-o", path, text=scene.ran("create", "identity", name, "--enroll", "ott"))
    scene.ran("publish", "web", "--host", "server", "--target", f"127.0.0.1:{scene.servers[0]}", "--to", "alice")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    host = scene.start("host", "-i", "identities", "--poll", "1")
    forward = scene.start("forward", "-i", "alice.json", "web", f"127.0.0.1:{port}")
    processes = {"host": host, "forward": forward}
    try:
        scene.works(port)
        stop, before = threading.Event(), None
        clients = [threading.Thread(target=scene.client, args=(port, stop)) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        begin, turn = time.monotonic(), 0
        while time.monotonic() < begin + seconds:
            time.sleep(1)
            scene.change(turn, host)
            turn += 1
            if before is None and time.monotonic() > begin + seconds / 4:
                before = {name: used(process) for name, process in processes.items()}
            for name, process in processes.items():
                if process.poll() is not None:
                    fail(f"{name} has ended with {process.returncode}")
        stop.set()
        for client in clients:
            client.join(30)
        scene.works(port)
        end = time.monotonic() + PATIENCE
        while True:
            status = json.loads(scene.ran("status", "-o", "json"))
            services = [service for one in status for session in one["sessions"] for service in session["services"]]
            if not any(service["connections"] for service in services):
                break
            if time.monotonic() > end:
                fail(f"connections are left: {services}")
            time.sleep(0.5)
        for name, process in processes.items():
            (files, memory), (now_files, now_memory) = before[name], used(process)
            print(f"{name}: open files {files} -> {now_files}, memory {memory >> 20} -> {now_memory >> 20} MiB")
            if now_files > files + FILES or now_memory > memory + MEMORY:
                fail(f"{name} grows")
    finally:
        for process in [*processes.values(), scene.controller]:
            process.terminate()
            process.wait(20)
    print(f"ok soak: {seconds} s, {turn} changes, {scene.good} transfers whole, {scene.bad} cut off")
    if scene.good < seconds:
        fail("too few transfers were whole")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="endpoint-soak-") as directory:
        place = pathlib.Path(directory)
        try:
            soak(Scene(pathlib.Path(sys.argv[1]), place), int(sys.argv[2]))
        except BaseException:
            print(f"the log ends:\n{(place / 'log').read_text()[-4000:]}")
            raise
