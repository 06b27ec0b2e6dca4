"""Compares a running controller with one of its own documents: Schemathesis sends requests, this script provides sessions and records.

    interface.py DOCUMENT       with OVERKEEP_URL, OVERKEEP_USER and OVERKEEP_PASSWORD in the environment

Every operation is requested with valid and with invalid input, except those in UNASKED. Each request carries the session of an
administrator made for this run, which no request may change; the operation that ends its own session gets a new one each time.
Random ids would only give 404, so that path parameters and references in bodies mostly become ids of existing records.

The run fails on a 5xx, on a status, media type or header that the document lacks, and on an answer that violates its schema.
Operations that never succeeded are listed: most of them need a key, a code or a token that cannot be generated.
"""
import json
import os
import pathlib
import random
import re
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

import schemathesis
import schemathesis.cli

CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
          "response_schema_conformance")
EXAMPLES = 5                    # per operation, in addition to the systematic ones
REAL = 0.75                     # the share of ids of existing records
EVERY = 100                     # the records are listed again after so many ids
UNASKED = ("/events",)          # its answer does not end
ENDS_ITS_SESSION = {"DELETE /current-api-session"}
FURNITURE = 8                   # records of each kind at the start


# -- the controller ----------------------------------------------------------------------------------------------------
class Refused(Exception):
    """An unexpected answer."""


def connection():
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE       # its CA is generated at the start
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))


OPENER = connection()


def ask(method, path, body=None, token=None, base="/edge/management/v1"):
    headers = {"Content-Type": "application/json", **({"zt-session": token} if token else {})}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["OVERKEEP_URL"] + base + path, data, headers, method=method)
    try:
        with OPENER.open(request, timeout=30) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as refusal:
        raise Refused(f"{method} {path} answered {refusal.code}: {refusal.read(400).decode(errors='replace')}") from None


def log_in(user, password):
    session = ask("POST", "/authenticate?method=password", {"username": user, "password": password})
    return session["token"], session["id"]


# An auth policy that locks nobody out.
EASY = {"secondary": {"requireTotp": False}, "primary": {
    "cert": {"allowed": True, "allowExpiredCerts": True}, "extJwt": {"allowed": True, "allowedSigners": []},
    "updb": {"allowed": True, "maxAttempts": 0, "minPasswordLength": 5, "lockoutDurationMinutes": 0,
             "requireMixedCase": False, "requireNumberChar": False, "requireSpecialChar": False}}}


class Administrator:
    """The administrator of this run, with its own password and auth policy."""

    def __init__(self):
        owner, _ = log_in(os.environ["OVERKEEP_USER"], os.environ["OVERKEEP_PASSWORD"])
        create = lambda path, **body: ask("POST", path, body, owner)["id"]
        self.name, self.password = f"schemathesis {os.urandom(4).hex()}", os.urandom(12).hex()
        policy = create("/auth-policies", name=self.name, **EASY)
        identity = create("/identities", name=self.name, type="User", isAdmin=True, authPolicyId=policy)
        login = create("/authenticators", method="updb", identityId=identity, username=self.name, password=self.password)
        self.token, session = log_in(self.name, self.password)
        self.login, self.belongings = login, {policy, identity, login, session}

    def create(self, path, **body): return ask("POST", path, body, self.token)["id"]

    def open_session(self, service): ask("POST", "/sessions", {"serviceId": service, "type": "Dial"}, self.token, "/edge/client/v1")

    def new_session(self): return log_in(self.name, self.password)[0]

    def is_in(self):
        try:
            return bool(ask("GET", "/current-api-session", token=self.token))
        except Refused:
            return False


# -- existing records --------------------------------------------------------------------------------------------------
KINDS = {"api-sessions", "auth-policies", "authenticators", "cas", "config-types", "configs", "controllers", "edge-router-policies",
         "edge-routers", "enrollments", "external-jwt-signers", "identities", "identity-types", "posture-check-types", "posture-checks",
         "service-edge-router-policies", "service-policies", "services", "sessions", "specs", "terminators", "transit-routers"}
# The path parameters and members of bodies that refer to a record of a kind.
REFERENCES = {"serviceId": "services", "service": "services", "configTypeId": "config-types", "configs": "configs", "configId": "configs",
              "identityId": "identities", "authPolicyId": "auth-policies", "caId": "cas", "router": "edge-routers",
              "allowedSigners": "external-jwt-signers", "requireExtJwtSigner": "external-jwt-signers"}
SAME = {"routers": "transit-routers"}
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
IN_PATH = re.compile(r"/([a-z-]+)/\{(\w+)\}")


def authority(name):
    """The certificate of an authority, as PEM."""
    line = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", os.devnull,
            "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE"]
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout


def furnish(administrator):
    """Creates some records of each kind, which requests can read, change and delete."""
    create = administrator.create
    for name in (f"furniture {number}" for number in range(FURNITURE)):
        config_type = create("/config-types", name=name)
        config = create("/configs", name=name, configTypeId=config_type, data={})
        service = create("/services", name=name, encryptionRequired=True, configs=[config])
        router = create("/edge-routers", name=name)
        create("/transit-routers", name=f"{name} onward")
        create("/terminators", service=service, router=router, binding="transport", address="tcp:localhost:80")
        identity = create("/identities", name=name, type="Device", isAdmin=False, enrollment={"ott": True})
        create("/authenticators", method="updb", identityId=identity, username=name, password=os.urandom(9).hex())
        create("/service-policies", name=name, type="Dial", semantic="AnyOf", identityRoles=["#all"], serviceRoles=["#all"])
        create("/edge-router-policies", name=name, semantic="AnyOf", identityRoles=["#all"], edgeRouterRoles=["#all"])
        create("/service-edge-router-policies", name=name, semantic="AnyOf", serviceRoles=["#all"], edgeRouterRoles=["#all"])
        create("/posture-checks", typeId="DOMAIN", name=name, domains=["example.test"])
        create("/cas", name=name, certPem=authority(name), isAuthEnabled=True, isAutoCaEnrollmentEnabled=True,
               isOttCaEnrollmentEnabled=True, identityRoles=[])
        create("/external-jwt-signers", name=name, enabled=True, issuer=f"https://{name}.test", audience="overlay",
               jwksEndpoint="https://localhost:1/keys")
        create("/auth-policies", name=name, **EASY)
        administrator.open_session(service)


class Records:
    """The ids of the records of each kind."""

    def __init__(self, administrator):
        self.administrator, self.known, self.given, self.chance = administrator, {}, 0, random.Random(1)

    def any(self, kind):
        """Mostly an existing id of the kind."""
        if self.given % EVERY == 0:
            self.known = {}
        self.given += 1
        kind = SAME.get(kind, kind)
        if kind not in self.known:
            self.known[kind] = self.listed(kind) if kind in KINDS else []
        return self.chance.choice(self.known[kind]) if self.known[kind] and self.chance.random() < REAL else None

    def listed(self, kind):
        listed = [record["id"] for record in ask("GET", f"/{kind}?limit=500", token=self.administrator.token)]
        return [record for record in listed if record not in self.administrator.belongings]

    def put_into(self, body):
        """A body whose references are replaced by ids of existing records."""
        if not isinstance(body, dict):
            return body
        return {member: self.instead(member, value) for member, value in body.items()}

    def instead(self, member, value):
        kind = REFERENCES.get(member)
        if isinstance(value, dict):
            return self.put_into(value)
        if kind and isinstance(value, str):
            return self.any(kind) or value
        if kind and isinstance(value, list):
            return [id for id in [self.any(kind)] if id]
        return value


# -- the run -----------------------------------------------------------------------------------------------------------
class Run:
    def __init__(self):
        self.administrator = Administrator()
        furnish(self.administrator)
        self.records = Records(self.administrator)
        self.asked, self.succeeded = set(), set()

    def before(self, case):
        operation = case.operation.label
        self.asked.add(operation)
        ends = operation in ENDS_ITS_SESSION
        case.headers["zt-session"] = self.administrator.new_session() if ends else self.administrator.token
        for kind, parameter in IN_PATH.findall(case.operation.path):
            if parameter in case.path_parameters:
                known = self.known(case.operation.path, REFERENCES.get(parameter, kind))
                case.path_parameters[parameter] = known or case.path_parameters[parameter]
            # Schemathesis reuses ids from answers.
            if case.path_parameters.get(parameter) in self.administrator.belongings and case.method != "GET":
                case.path_parameters[parameter] = "not-this-one"
        case.body = self.records.put_into(case.body)
        # A control character in a header is invalid HTTP, which is answered before the interface sees it.
        case.headers.update({name: CONTROL.sub("", value) for name, value in case.headers.items() if isinstance(value, str)})

    def known(self, path, kind):
        return self.administrator.login if path.startswith("/current-identity/") else self.records.any(kind)

    def after(self, case, response):
        # The systematic cases try other methods as well, and OPTIONS is allowed everywhere.
        if response.status_code < 300 and case.method == case.operation.method.upper():
            self.succeeded.add(case.operation.label)

    def verdict(self):
        """The reasons for which the run does not count, as sentences."""
        print(f"{len(self.asked)} operations asked, {len(self.succeeded)} of them succeeded at least once; never: "
              + "; ".join(sorted(self.asked - self.succeeded)))
        if not self.administrator.is_in():
            yield "the administrator of the run lost the session meanwhile"


@schemathesis.deserializer("application/json")
def read(context, response):
    """Decodes an answer. Schemathesis would decode a signed token as JSON; it is text."""
    return response.text if response.headers["content-type"] == ["application/jwt"] else response.json()


@schemathesis.serializer("application/x-pem-file", "application/pkcs10")
def write(context, text):
    """Encodes certificate requests as text."""
    return str(text).encode(errors="replace")


def strict(document):
    """A document without `default` statuses."""
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("default", None)
    return document


def main(document):
    run, described = Run(), json.loads(pathlib.Path(document).read_text())
    schemathesis.hook("before_call")(lambda context, case, kwargs: run.before(case))
    schemathesis.hook("after_call")(lambda context, case, response: run.after(case, response))
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)          # Schemathesis writes files to its working directory
        pathlib.Path("document.json").write_text(json.dumps(strict(described)))
        status = command_line(
            "run", "document.json", "--url", os.environ["OVERKEEP_URL"] + described["servers"][0]["url"], "--tls-verify", "false",
            "--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES),
            *(word for path in UNASKED for word in ("--exclude-path", path)), "--generation-deterministic", "--continue-on-failure",
            "--request-timeout", "30", "--warnings", "off", "--no-color")
    wrong = list(run.verdict())
    for sentence in wrong:
        print(f"FAIL {document}: {sentence}")
    return 1 if status or wrong else 0


def command_line(*words):
    """Runs Schemathesis and returns its exit status."""
    try:
        schemathesis.cli.schemathesis.main(words)
    except SystemExit as end:
        return end.code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
