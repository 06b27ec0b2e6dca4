"""Runs third-party client libraries against a controller, and checks the results on its management interface.

Two of them take the main steps of an application (python/client.py, go/client): they enroll, authenticate, list their
services and dial, and print their progress, one JSON object per line. The management interface is checked as well: the
certificate, the log-in and the Dial session must be there. No router is connected, so that the dial itself fails.
The Python library also takes these steps with a certificate of a third-party authority, with a token and without one.

The tests in traffic.py start controllers of their own, with the built-in router, and send bytes through it; those in routers.py and
router_faults.py do so with unmodified Go routers. Those in endpoint.py are about `overkeep forward` and `overkeep host`.

The others judge the answers themselves and print {"name": ..., "failure": ... or null} per line: go/credentials tests every
credential operation with the generated Go packages and the Go library, browzer/client.mjs the library for browsers.
"""
import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

import endpoint
import moving
import prepare
import router_faults
import router_libziti
import router_pair
import routers
import traffic
from controller import ASK, Authority, Failed, Missing, controller, expect, tail, until

CLIENT = 120                                            # seconds: one program's run
STEPS = ("enroll", "authenticate", "service", "dial")


def run(line, work, more=None):
    """Runs a program. Returns the JSON objects that it printed, one per line, and its error output if it did not finish."""
    with open(work / "out", "w+") as out, open(work / "err", "w+") as err:
        process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env={**os.environ, **(more or {})})
        try:
            ended = {0: None}.get(process.wait(CLIENT), f"ended with status {process.returncode}")
        except subprocess.TimeoutExpired:
            ended = f"did not end within {CLIENT} s"
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    output = [json.loads(text) for text in (work / "out").read_text().splitlines()]
    return output, ended and f"the program {ended}: {tail((work / 'err').read_text(errors='replace'))}"


# -- the main steps --------------------------------------------------------------------------------------------------
class Setting:
    """An identity that may dial and host one service but not another one, all named after the test."""

    def __init__(self, admin, name, port):
        self.admin, self.name, self.service_name, self.host = admin, name, f"{name} service", f"{name.replace(' ', '-')}.interop"
        types = {kind["name"]: kind["id"] for kind in admin.get("/config-types?limit=100")}
        hidden = admin.create("/configs", name=f"{name} hidden", configTypeId=types["intercept.v1"], data={
            "protocols": ["tcp"], "addresses": ["hidden." + self.host], "portRanges": [{"low": port, "high": port}]})
        admin.create("/services", name=f"{name} hidden", encryptionRequired=True, configs=[hidden])       # no policy grants it
        intercept = admin.create("/configs", name=f"{name} intercept", configTypeId=types["intercept.v1"], data={
            "protocols": ["tcp"], "addresses": [self.host], "portRanges": [{"low": port, "high": port}]})
        host = admin.create("/configs", name=f"{name} host", configTypeId=types["host.v1"], data={
            "protocol": "tcp", "address": "127.0.0.1", "port": port})
        self.service = admin.create("/services", name=self.service_name, encryptionRequired=True, configs=[intercept, host])
        for kind in ("Dial", "Bind"):
            admin.create("/service-policies", name=f"{name} {kind}", type=kind, semantic="AnyOf",
                         identityRoles=[f"#{name}"], serviceRoles=[f"@{self.service}"])
        self.candidates = f"{self.service_name}={self.host}:{port}", f"{name} hidden=hidden.{self.host}:{port}"

    def create_identity(self, **more):
        self.admin.create("/identities", name=self.name, type="Default", isAdmin=False, roleAttributes=[self.name], **more)
        return self.identity()

    def identity(self):
        found = self.admin.get("/identities?filter=" + urllib.parse.quote(f'name="{self.name}"'))
        expect(found, "the identity does not exist")
        return found[0]


def add_router_and_policies(admin):
    """An edge router that is never connected and that every identity and service may use, because a session needs one."""
    admin.create("/edge-routers", name="router")
    admin.create("/edge-router-policies", name="all", semantic="AnyOf", identityRoles=["#all"], edgeRouterRoles=["#all"])
    admin.create("/service-edge-router-policies", name="all", semantic="AnyOf", serviceRoles=["#all"], edgeRouterRoles=["#all"])


def fingerprint(identity):
    """The fingerprint of the certificate in an identity file, in the format of the controller."""
    text = json.loads(identity.read_text())["id"]["cert"].removeprefix("pem:")
    if "-----BEGIN" not in text:
        text = pathlib.Path(text).read_text()
    end = "-----END CERTIFICATE-----"
    return hashlib.sha1(ssl.PEM_cert_to_DER_cert(text[:text.index(end) + len(end)])).hexdigest()


class LibraryRun:
    """The run of one library, judged step by step."""

    def __init__(self, admin, name, line, sdk, port, method, work):
        self.admin, self.sdk, self.work, self.setting = admin, sdk, work, Setting(admin, name, port)
        jwt, given = work / "enrollment.jwt", []
        if method == "ott":
            jwt.write_text(self.setting.create_identity(enrollment={"ott": True})["enrollment"]["ott"]["jwt"])
        else:
            authority = Authority(admin, name, work / "authority")
            given = [str(file) for file in authority.issue(name)]
            if method == "ottca":
                jwt.write_text(self.setting.create_identity(enrollment={"ottca": authority.id})["enrollment"]["ottca"]["jwt"])
            else:           # the enrollment creates the identity, with the name and the roles that the authority defines
                jwt.write_bytes(admin.raw("GET", f"/cas/{authority.id}/jwt"))
        output, self.complaint = run([*line, jwt, work / "identity.json", *given, *self.setting.candidates], work, {"ZITI_LOG": "3"})
        self.steps = {step["step"]: step for step in output}

    def reached(self, step):
        if step not in self.steps:
            first = next(name for name in STEPS if name not in self.steps)
            raise Failed(self.complaint or "the program said nothing of it" if step == first else f"not reached, see {first}")
        return self.steps[step]

    def enroll(self):
        self.reached("enroll")
        seen, held = self.setting.identity(), fingerprint(self.work / "identity.json")
        known = (seen["authenticators"].get("cert") or {}).get("fingerprint")
        expect(known == held, f"the library holds the certificate {held}, the controller knows {known}")
        expect(not seen["enrollment"], "the enrollment is still open")

    def authenticate(self):
        self.reached("authenticate")
        seen = self.setting.identity()
        expect(seen["hasApiSession"], "the identity has no API session")
        expect(seen["sdkInfo"].get("type") == self.sdk, f"the login left the sdkInfo {seen['sdkInfo']}")

    def service(self):
        seen = self.reached("service")["services"]
        expect(seen == [self.setting.service_name], f"the library sees the services {seen}")

    def dial(self):
        self.reached("dial")
        expect(self.complaint is None, self.complaint)
        identity = self.setting.identity()["id"]
        mine = until(lambda: [session for session in self.admin.get("/sessions?limit=500")
                              if session["identityId"] == identity], ASK, "the identity got no session")
        expect([(session["type"], session["serviceId"]) for session in mine] == [("Dial", self.setting.service)],
               f"the sessions are {[(session['type'], session['service']['name']) for session in mine]}")


def library_test(prepared, sdk, port, method="ott"):
    """A test: the main steps, enrolled by the method."""
    def test(report, admin, name, work):
        library_run = LibraryRun(admin, name, prepared(), sdk, port, method, work)
        for step in STEPS:
            report.judge(f"{name} {step}", getattr(library_run, step))
    return test


# -- programs that judge the answers themselves---------------------------------------------------------------------------
def verdicts(report, name, output, complaint):
    """Reports the results of a program, and its error output if it did not finish."""
    found = [line for line in output if "name" in line]
    for line in found:
        if line["failure"] is None:
            report.ok(f"{name} {line['name']}")
        else:
            report.fail(f"{name} {line['name']}", line["failure"])
    if complaint or not found:
        report.fail(name, complaint or "the program found nothing")


def credentials(report, admin, name, work):
    """Every credential operation of both interfaces."""
    line = [*prepare.go("./credentials"), admin.address, work]
    output, complaint = run(line, work, {"OVERKEEP_USER": "admin", "OVERKEEP_PASSWORD": admin.password})
    verdicts(report, name, output, complaint)
    for last in output:
        if "undriven" in last:
            print(f"   credential operations that were not driven: {', '.join(last['undriven']) or 'none'}", flush=True)


def browser(report, admin, name, work):
    """The library for browsers, with a password log-in."""
    line, setting, trusted = prepare.node(), Setting(admin, name, 7003), work / "authorities.pem"
    identity, password = setting.create_identity()["id"], os.urandom(12).hex()
    admin.create("/authenticators", method="updb", identityId=identity, username=name, password=password)
    trusted.write_bytes(admin.authorities())
    verdicts(report, name, *run([*line, f"https://{admin.address}/edge/client/v1", setting.service_name], work,
                                {"OVERKEEP_USER": name, "OVERKEEP_PASSWORD": password, "NODE_EXTRA_CA_CERTS": str(trusted)}))


TESTS = {
    "openziti-python": library_test(prepare.python, "ziti-sdk-c", 7001),
    "openziti-python-ottca": library_test(prepare.python, "ziti-sdk-c", 7004, "ottca"),
    "openziti-python-ca": library_test(prepare.python, "ziti-sdk-c", 7005, "ca"),
    "sdk-golang": library_test(functools.partial(prepare.go, "./client"), "ziti-sdk-golang", 7002),
    "edge-api": credentials,
    "browzer": browser,
    **traffic.TESTS,
    **endpoint.TESTS,
    **routers.TESTS,
    **router_faults.TESTS,
    **router_libziti.TESTS,
    **router_pair.TESTS,
    **moving.TESTS,
}


# -- the report ------------------------------------------------------------------------------------------------------
class Report:
    def __init__(self, required, binary):
        self.required, self.binary, self.passed, self.failures, self.skipped = required, binary, 0, [], 0
        self.lock = threading.Lock()

    def add(self, part):
        """Adds the results of a part, which another thread may have made."""
        with self.lock:
            self.passed, self.failures, self.skipped = self.passed + part.passed, self.failures + part.failures, self.skipped + part.skipped

    def ok(self, name): self.passed += 1; print(f"ok {name}", flush=True)
    def fail(self, name, reason): self.failures.append(name); print(f"FAIL {name}: {reason}", flush=True)

    def skip(self, name, reason):
        if self.required:
            return self.fail(name, reason)
        self.skipped += 1
        print(f"skip {name}: {reason}", flush=True)

    def judge(self, name, test, quiet=False):
        """Runs a test; a quiet one reports its own successes."""
        try:
            test()
        except Missing as missing:
            self.skip(name, missing)
        except Failed as wrong:
            self.fail(name, wrong)
        except (KeyError, TypeError, ValueError, OSError, subprocess.SubprocessError) as surprise:      # an answer with an unexpected shape
            self.fail(name, repr(surprise))
        else:
            if not quiet:
                self.ok(name)


def run_test(report, admin, directory, name, again):
    """Runs a test, and again from its start as long as something in it failed, `again` times at most. Adds the results of the last run."""
    for run in range(again + 1):
        work = directory / (f"{name}-{run + 1}" if run else name)
        work.mkdir()
        part, start = Report(report.required, report.binary), time.monotonic()
        part.judge(name, functools.partial(TESTS[name], part, admin, name, work), quiet=True)
        print(f"   {name}: {time.monotonic() - start:.0f} s", flush=True)
        if not part.failures or run == again:
            return report.add(part)
        print(f"again {name}: {'; '.join(part.failures)}", flush=True)


def main():
    arguments = argparse.ArgumentParser(prog="run", description="client libraries that nobody here wrote, against a controller")
    arguments.add_argument("--require", action="store_true", default=bool(os.environ.get("CI")), help="fail where a library cannot be prepared")
    arguments.add_argument("--keep", type=pathlib.Path, help="a directory for the logs of controllers and clients")
    arguments.add_argument("binary", type=pathlib.Path, help="the controller's program")
    arguments.add_argument("test", nargs="*", default=[], help=f"only these: {' '.join(TESTS)}")
    arguments.add_argument("--jobs", type=int, default=1, metavar="N", help="run N at the same time; they begin in the order given, so the longest come first")
    arguments.add_argument("--again", type=int, default=0, metavar="N",
                           help="a test in which something failed is run again from its start, N times at most; the last run counts")
    options = arguments.parse_args()
    if not os.access(options.binary, os.X_OK):
        arguments.error(f"{options.binary} is not an executable file")
    unknown = [name for name in options.test if name not in TESTS]
    if unknown:
        arguments.error(f"there is no test {unknown[0]}")
    report = Report(options.require, options.binary.resolve())
    prepare.CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="interop-") as directory:
        try:
            with controller(options.binary.resolve(), pathlib.Path(directory)) as admin:
                add_router_and_policies(admin)
                with concurrent.futures.ThreadPoolExecutor(options.jobs) as threads:
                    for done in [threads.submit(run_test, report, admin, pathlib.Path(directory), name, options.again) for name in options.test or TESTS]:
                        done.result()
        except Failed as wrong:
            report.fail("controller", wrong)
        if options.keep:
            shutil.copytree(directory, options.keep, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock", "*.redb*"))
    for name in report.failures:
        print(f"failed: {name}")
    print(f"{report.passed} passed, {len(report.failures)} failed, {report.skipped} skipped")
    return 1 if report.failures else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))      # so that the controller is stopped as well
    sys.exit(main())
