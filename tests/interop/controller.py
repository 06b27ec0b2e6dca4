"""A controller that the tests start, with the session of its administrator; and the exceptions for failed and skipped tests."""
import base64
import contextlib
import json
import os
import random
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request

START, ASK = 30, 10         # seconds: starting and stopping, one request


class Missing(Exception):
    """This machine lacks something: the test is skipped."""


class Failed(Exception):
    """A test failed."""


def expect(condition, reason):
    if not condition:
        raise Failed(reason)


def until(question, seconds, reason):
    """Calls `question` until its result is not empty, and returns that result."""
    end = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        expect(time.monotonic() < end, f"{reason} within {seconds} s")
        time.sleep(0.1)


def tail(text, lines=6):
    return " | ".join(line.strip() for line in text.splitlines()[-lines:] if line.strip())


class Controller:
    """A running controller with an empty data file, and its administrator."""

    def __init__(self, start, address, log, password):
        self.start, self.address, self.log, self.password, self.token, self.process = start, address, log, password, None, None
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE   # its CA is generated at the start
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))

    def begin(self):
        """Starts the controller and logs in."""
        self.process, self.token = self.start(), None
        until(self.answers, START, "the controller did not answer GET /version")
        self.log_in()

    def end(self, how=subprocess.Popen.terminate):
        how(self.process)
        try:
            self.process.wait(START)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def raw(self, method, path, body=None, media="application/json"):
        """The raw body of the answer."""
        headers = {"Accept": "*/*", "Content-Type": media}
        if self.token:
            headers["zt-session"] = self.token
        base = "" if path.startswith(("/overkeep/", "/fabric/", "/edge/")) else "/edge/management/v1"
        request = urllib.request.Request(f"https://{self.address}{base}{path}", body, headers, method=method)
        try:
            with self.opener.open(request, timeout=ASK) as answer:
                return answer.read()
        except urllib.error.HTTPError as refusal:
            raise Failed(f"{method} {path} answered {refusal.code}: {refusal.read(400).decode(errors='replace')}") from None
        except (OSError, ValueError) as error:
            raise Failed(f"{method} {path}: {error}; the log ends: {tail(self.log.read_text(errors='replace'))}") from None

    def ask(self, method, path, body=None):
        answer = self.raw(method, path, None if body is None else json.dumps(body).encode())
        try:
            return json.loads(answer)["data"]
        except (ValueError, KeyError) as error:
            raise Failed(f"{method} {path}: {error!r} in {answer[:400]!r}") from None

    def get(self, path): return self.ask("GET", path)
    def create(self, path, **body): return self.ask("POST", path, body).get("id")

    def log_in(self):
        body = {"username": "admin", "password": self.password}
        self.token = self.ask("POST", "/authenticate?method=password", body)["token"]

    def answers(self):
        expect(self.process.poll() is None, f"the controller ended: {tail(self.log.read_text(errors='replace'))}")
        try:
            return bool(self.get("/version"))
        except Failed:
            return False

    def authorities(self):
        """The authorities that clients are told to trust, as PEM."""
        store = base64.b64decode(self.raw("GET", "/.well-known/est/cacerts"))
        return subprocess.run(["openssl", "pkcs7", "-inform", "DER", "-print_certs"], input=store, capture_output=True, check=True).stdout


GIVEN = set()               # ports


def free_port():
    """A port that nobody listens on, and that was not returned before: several tests may start programs at the same time. It is below the ports of
    outgoing connections, one of which could otherwise have it when the program starts."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in GIVEN:
            GIVEN.add(port)
            return port


@contextlib.contextmanager
def controller(binary, work, router=False, **settings):
    """A controller with an empty file; `settings` are further variables. The built-in router is off unless `router` is set."""
    address, password = f"127.0.0.1:{free_port()}", os.urandom(12).hex()
    secret, log = work / "password", work / "log"
    secret.touch(0o600)
    secret.write_text(password)
    # A low cost, because there are hundreds of log-ins and no attacker.
    env = {**os.environ, "OVERKEEP_PASSWORDS_COST": "10", "OVERKEEP_ROUTER_ENABLED": str(router).lower(), **settings}
    line = [binary, "run", "--data", work / "overkeep.redb", "--listen", address, "--advertise", address, "--admin-password-file", secret]

    def start():
        with open(log, "ab") as output:
            return subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env)
    running = Controller(start, address, log, password)
    try:
        running.begin()
        yield running
    finally:
        running.end()


class Authority:
    """A third-party certificate authority, added to the controller and verified."""

    def __init__(self, admin, name, work):
        self.work, self.certificate, self.key = work, work / "authority.pem", work / "authority.key"
        work.mkdir()
        self.openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-days", "2",
                     "-keyout", self.key, "-out", self.certificate)
        self.id = admin.create("/cas", name=name, certPem=self.certificate.read_text(), identityRoles=[name], identityNameFormat="[commonName]",
                               isAuthEnabled=True, isAutoCaEnrollmentEnabled=True, isOttCaEnrollmentEnabled=True)
        proof, _ = self.issue(admin.get(f"/cas/{self.id}")["verificationToken"])
        admin.raw("POST", f"/cas/{self.id}/verify", proof.read_bytes(), "text/plain")

    def openssl(self, *arguments):
        done = subprocess.run(["openssl", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=START)
        expect(done.returncode == 0, f"openssl {arguments[0]}: {tail(done.stderr)}")

    def issue(self, name):
        """A certificate for the name and its key, in two PEM files."""
        request, certificate, key = (self.work / f"{name}.{kind}" for kind in ("csr", "pem", "key"))
        self.openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        self.openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial", "-days", "1",
                     "-out", certificate)
        return certificate, key
