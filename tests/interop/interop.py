"""Runs each client library through the main job of a controller and checks on the management interface what came of it.

The library programs (python/client.py, go/main.go) enroll, authenticate, look at their services and dial; they say how
far they got, one JSON object a line. What they say is not believed alone: the certificate, the login and the Dial session
must be there on the management interface. No router is connected, so the dial itself fails in every library.
"""
import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
CACHE = HERE.parent.parent / "target" / "interop"
PREPARE, START, CLIENT, ASK = 600, 30, 60, 10         # seconds: installing, starting, one library's run, one request
STEPS = ("enroll", "authenticate", "service", "dial")


class Missing(Exception):
    """Something that this machine lacks: a reason to skip."""


class Failed(Exception):
    """What a test found wrong."""


def expect(condition, reason):
    if not condition:
        raise Failed(reason)


def until(question, seconds, reason):
    """The first answer of `question` that is not empty."""
    end = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        expect(time.monotonic() < end, f"{reason} within {seconds} s")
        time.sleep(0.1)


def tail(text, lines=6):
    return " | ".join(line.strip() for line in text.splitlines()[-lines:] if line.strip())


# -- the controller --------------------------------------------------------------------------------------------------
class Controller:
    """A running controller with an empty data file, and its administrator."""

    def __init__(self, process, address, log):
        self.process, self.address, self.log, self.token = process, address, log, None
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE   # its CA is as new as itself
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))

    def ask(self, method, path, body=None):
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self.token:
            headers["zt-session"] = self.token
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"https://{self.address}/edge/management/v1{path}", data, headers, method=method)
        try:
            with self.opener.open(request, timeout=ASK) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refusal:
            raise Failed(f"{method} {path} answered {refusal.code}: {refusal.read(400).decode(errors='replace')}") from None
        except (OSError, ValueError, KeyError) as error:
            raise Failed(f"{method} {path}: {error}; the log ends: {tail(self.log.read_text(errors='replace'))}") from None

    def get(self, path): return self.ask("GET", path)
    def create(self, path, **body): return self.ask("POST", path, body)["id"]

    def log_in(self, password):
        self.token = self.ask("POST", "/authenticate?method=password", {"username": "admin", "password": password})["token"]

    def answers(self):
        expect(self.process.poll() is None, f"the controller ended: {tail(self.log.read_text(errors='replace'))}")
        try:
            return bool(self.get("/version"))
        except Failed:
            return False


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def controller(binary, work):
    address, password = f"127.0.0.1:{free_port()}", os.urandom(12).hex()
    secret, log = work / "password", work / "log"
    secret.touch(0o600)
    secret.write_text(password)
    with open(log, "wb") as output:
        process = subprocess.Popen([binary, "run", "--data", work / "overkeep.redb", "--listen", address, "--advertise", address,
                                    "--admin-password-file", secret], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    running = Controller(process, address, log)
    try:
        until(running.answers, START, "the controller did not answer GET /version")
        running.log_in(password)
        yield running
    finally:
        process.terminate()
        try:
            process.wait(START)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


# -- what a library needs --------------------------------------------------------------------------------------------
class Setting:
    """An identity that may reach and host one service and not another one, all named after the test."""

    def __init__(self, admin, name, port):
        self.name, self.host = f"{name} service", f"{name}.interop"
        types = {kind["name"]: kind["id"] for kind in admin.get("/config-types?limit=100")}
        hidden = admin.create("/configs", name=f"{name} hidden", configTypeId=types["intercept.v1"], data={
            "protocols": ["tcp"], "addresses": ["hidden." + self.host], "portRanges": [{"low": port, "high": port}]})
        admin.create("/services", name=f"{name} hidden", encryptionRequired=True, configs=[hidden])       # no policy grants it
        intercept = admin.create("/configs", name=f"{name} intercept", configTypeId=types["intercept.v1"], data={
            "protocols": ["tcp"], "addresses": [self.host], "portRanges": [{"low": port, "high": port}]})
        host = admin.create("/configs", name=f"{name} host", configTypeId=types["host.v1"], data={
            "protocol": "tcp", "address": "127.0.0.1", "port": port})
        self.service = admin.create("/services", name=self.name, encryptionRequired=True, configs=[intercept, host])
        self.identity = admin.create("/identities", name=f"{name} identity", type="Default", isAdmin=False, enrollment={"ott": True})
        for kind in ("Dial", "Bind"):
            admin.create("/service-policies", name=f"{name} {kind}", type=kind, semantic="AnyOf",
                         identityRoles=[f"@{self.identity}"], serviceRoles=[f"@{self.service}"])
        self.candidates = f"{self.name}={self.host}:{port}", f"{name} hidden=hidden.{self.host}:{port}"
        self.jwt = admin.get(f"/identities/{self.identity}")["enrollment"]["ott"]["jwt"]


def lay_ground(admin):
    """An edge router, never connected, that every identity and every service may use: no session without one."""
    admin.create("/edge-routers", name="router")
    admin.create("/edge-router-policies", name="all", semantic="AnyOf", identityRoles=["#all"], edgeRouterRoles=["#all"])
    admin.create("/service-edge-router-policies", name="all", semantic="AnyOf", serviceRoles=["#all"], edgeRouterRoles=["#all"])


# -- the libraries ---------------------------------------------------------------------------------------------------
def command(*line, cwd=None, env=None):
    """Runs a preparing command that needs tools or the network."""
    try:
        done = subprocess.run(line, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PREPARE)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{error}") from None
    if done.returncode:
        raise Missing(f"`{' '.join(map(str, line[:4]))}` failed: {tail(done.stderr or done.stdout, 3)}")
    return done.stdout


def python_client():
    requirements = HERE / "python" / "requirements.txt"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stamp = hashlib.sha256(requirements.read_bytes() + version.encode()).hexdigest()[:12]
    home = CACHE / f"python-{stamp}"
    python = home / "bin" / "python3"
    if not (home / "ready").exists():
        shutil.rmtree(home, ignore_errors=True)
        command(sys.executable, "-m", "venv", home)
        command(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:", "-r", requirements)
        (home / "ready").touch()
    return [python, HERE / "python" / "client.py"]


def go_client():
    if not shutil.which("go"):
        raise Missing("go is not there")
    program = CACHE / "sdk-golang"
    # The sums are in go.sum, so the checksum database, which does not know every one of these versions, is not asked.
    env = {**os.environ, "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false", "GONOSUMDB": "github.com/openziti/*", "GOWORK": "off"}
    command("go", "list", "-deps", ".", cwd=HERE / "go", env=env)        # fetches the modules
    try:
        command("go", "build", "-o", program, ".", cwd=HERE / "go", env=env)
    except Missing as broken:
        raise Failed(broken) from None
    return [program]


def run_client(line, setting, work):
    """The steps that the program got through, by name, and what it complained about if it did not finish."""
    jwt, identity = work / "enrollment.jwt", work / "identity.json"
    jwt.write_text(setting.jwt)
    with open(work / "out", "w+") as out, open(work / "err", "w+") as err:
        process = subprocess.Popen([*line, jwt, identity, *setting.candidates],
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=err, env={**os.environ, "ZITI_LOG": "3"})
        try:
            ended = {0: None}.get(process.wait(CLIENT), f"ended with status {process.returncode}")
        except subprocess.TimeoutExpired:
            ended = f"did not end within {CLIENT} s"
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    steps = {step["step"]: step for step in map(json.loads, (work / "out").read_text().splitlines())}
    complaint = ended and f"the program {ended}: {tail((work / 'err').read_text(errors='replace'))}"
    return steps, complaint


def fingerprint(identity):
    """Of the certificate in an identity file, as the controller writes fingerprints."""
    text = json.loads(identity.read_text())["id"]["cert"].removeprefix("pem:")
    end = "-----END CERTIFICATE-----"
    return hashlib.sha1(ssl.PEM_cert_to_DER_cert(text[:text.index(end) + len(end)])).hexdigest()


class Journey:
    """One library's run, judged step by step."""

    def __init__(self, admin, name, line, sdk, port, work):
        work.mkdir()
        self.admin, self.sdk, self.work, self.setting = admin, sdk, work, Setting(admin, name, port)
        self.steps, self.complaint = run_client(line, self.setting, work)

    def reached(self, step):
        if step not in self.steps:
            first = next(name for name in STEPS if name not in self.steps)
            raise Failed(self.complaint or "the program said nothing of it" if step == first else f"not reached, see {first}")
        return self.steps[step]

    def identity(self): return self.admin.get(f"/identities/{self.setting.identity}")

    def enroll(self):
        self.reached("enroll")
        seen, held = self.identity(), fingerprint(self.work / "identity.json")
        known = (seen["authenticators"].get("cert") or {}).get("fingerprint")
        expect(known == held, f"the library holds the certificate {held}, the controller knows {known}")
        expect(not seen["enrollment"], "the enrollment is still open")

    def authenticate(self):
        self.reached("authenticate")
        seen = self.identity()
        expect(seen["hasApiSession"], "the identity has no API session")
        expect(seen["sdkInfo"].get("type") == self.sdk, f"the login left the sdkInfo {seen['sdkInfo']}")

    def service(self):
        seen = self.reached("service")["services"]
        expect(seen == [self.setting.name], f"the library sees the services {seen}")

    def dial(self):
        self.reached("dial")
        expect(self.complaint is None, self.complaint)
        mine = until(lambda: [session for session in self.admin.get("/sessions?limit=500")
                              if session["identityId"] == self.setting.identity], ASK, "the identity got no session")
        expect([(session["type"], session["serviceId"]) for session in mine] == [("Dial", self.setting.service)],
               f"the sessions are {[(session['type'], session['service']['name']) for session in mine]}")


# -- the report ------------------------------------------------------------------------------------------------------
class Report:
    def __init__(self, required):
        self.required, self.passed, self.failed, self.skipped = required, 0, 0, 0

    def ok(self, name): self.passed += 1; print(f"ok {name}", flush=True)
    def fail(self, name, reason): self.failed += 1; print(f"FAIL {name}: {reason}", flush=True)

    def skip(self, name, reason):
        if self.required:
            return self.fail(name, reason)
        self.skipped += 1
        print(f"skip {name}: {reason}", flush=True)

    def judge(self, name, test):
        try:
            test()
        except Failed as wrong:
            self.fail(name, wrong)
        except (KeyError, TypeError, ValueError, OSError) as surprise:      # an answer of another shape
            self.fail(name, repr(surprise))
        else:
            self.ok(name)


LIBRARIES = (("openziti-python", python_client, "ziti-sdk-c", 7001), ("sdk-golang", go_client, "ziti-sdk-golang", 7002))


def main():
    arguments = argparse.ArgumentParser(prog="run", description="client libraries that nobody here wrote, against a controller")
    arguments.add_argument("--require", action="store_true", default=bool(os.environ.get("CI")), help="fail where a library cannot be prepared")
    arguments.add_argument("binary", type=pathlib.Path, help="the controller's program")
    options = arguments.parse_args()
    if not os.access(options.binary, os.X_OK):
        arguments.error(f"{options.binary} is not an executable file")
    report = Report(options.require)
    CACHE.mkdir(parents=True, exist_ok=True)

    ready = {}
    for name, prepare, *_ in LIBRARIES:
        try:
            ready[name] = prepare()
        except Missing as missing:
            report.skip(name, missing)
        except Failed as wrong:
            report.fail(name, wrong)
    if ready:
        with tempfile.TemporaryDirectory(prefix="interop-") as directory:
            work = pathlib.Path(directory)
            try:
                with controller(options.binary.resolve(), work) as admin:
                    lay_ground(admin)
                    for name, _, sdk, port in LIBRARIES:
                        if name in ready:
                            travel(report, admin, name, ready[name], sdk, port, work / name)
            except Failed as wrong:
                report.fail("controller", wrong)
    print(f"{report.passed} passed, {report.failed} failed, {report.skipped} skipped")
    return 1 if report.failed else 0


def travel(report, admin, name, line, sdk, port, work):
    try:
        journey = Journey(admin, name, line, sdk, port, work)
    except Failed as wrong:
        return report.fail(name, wrong)
    for step in STEPS:
        report.judge(f"{name} {step}", getattr(journey, step))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))      # so that the controller is stopped, too
    sys.exit(main())
