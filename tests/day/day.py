"""Runs the day. See `run`."""
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "interop"))
from controller import Failed, controller, expect, until  # noqa: E402
from host import Host  # noqa: E402

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`(overkeep [^`]+)`")


class Page:
    """A page of docs/, and which of its blocks ran."""

    def __init__(self, name):
        self.text = (ROOT / "docs" / name).read_text()
        self.open = [body for _, body in BLOCK.findall(self.text)]

    def section(self, heading):
        """The blocks below a heading, which are to run now."""
        found = re.split(rf"^##+ {re.escape(heading)}$", self.text, maxsplit=1, flags=re.MULTILINE)
        expect(len(found) == 2, f"the page has no section {heading}")
        blocks = [body for _, body in BLOCK.findall(re.split(r"^## ", found[1], maxsplit=1, flags=re.MULTILINE)[0])]
        expect(blocks, f"the section {heading} has no block")
        for block in blocks:
            self.open.remove(block)
        return blocks

    def named(self):
        """The commands in the text, without their blocks."""
        return sorted({span for span in SPAN.findall(BLOCK.sub("", self.text))})


def is_like(named, ran):
    """Whether a command that ran is the one that the text names. Words in capitals and brackets stand for any."""
    words = [word for word in named.split()[1:] if not word.startswith("[")]
    ran = iter(ran.split())
    return all(any(word.strip(".").isupper() or word == one for one in ran) for word in words)


def fetch(url):
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10) as answer:
        return answer.read().decode()


def install(host, page):
    # The doctor, which comes last, finds the password that is to be deleted, and that the first snapshot may not be made yet.
    said = "".join(host.run(block, status=3) for block in page.section("Install"))
    found = set(re.findall("^FAIL ([^:]+):", said, re.MULTILINE))
    expect("first password" in found and found <= {"first password", "snapshots"}, f"the doctor found {found}")
    password = (host.data.parent / "overkeep.redb.admin-password").read_text().strip()
    expect(password and password in said, "the password was not shown")
    expect("overkeep:x:" in (host.root / "etc/passwd").read_text(), "the package made no user")
    expect(oct(host.data.parent.stat().st_mode)[-3:] == "700", "others can read the directory of the data file")
    (host.work / "password").touch(0o600)
    (host.work / "password").write_text(password)
    host.run("overkeep completions bash | bash -n && overkeep man pages && overkeep admin list && rm ../root/var/lib/overkeep/*.admin-password")


def create(host, page):
    address = {"https://controller.example:1280": f"https://127.0.0.1:{host.port}"}
    for block in page.section("The command line"):
        host.run(block, words=address)
    host.run("""
        overkeep list serps && overkeep fabric list services && overkeep create service scratch && overkeep show service scratch
        overkeep update service scratch --role-attributes new
        overkeep show service scratch -o json > scratch.json
        overkeep replace service scratch --json - <<< '{"name": "scratch", "encryptionRequired": true, "roleAttributes": ["newer"]}'
        overkeep delete service scratch
        overkeep create api-token login -o json > token.json
        token=$(grep -o 'ovk_[^"]*' token.json)
        OVERKEEP_TOKEN=$token overkeep login https://127.0.0.1:%d --token --yes
        overkeep context list && overkeep logout
    """ % host.port)


def apply(host, page, old):
    for block in page.section("The network as a file"):
        host.run(block)
    words = {"https://old.example:1280": f"https://{old.address}", "--password-file password": "--password-file old-password"}
    (host.work / "old-password").touch(0o600)
    (host.work / "old-password").write_text(old.password)
    old.create("/services", name="moved", encryptionRequired=True)
    old.create("/identities", name="mover", type="Device", isAdmin=False)
    for block in page.section("Move in from another controller"):
        host.run(block, words=words)
    host.run("overkeep show service moved && overkeep create enrollment --method ott --identity-id mover --expires-at 2099-01-01T00:00:00Z")


def enroll(host):
    """Enrolls the identity that moved in, so that there is a client certificate."""
    host.run("overkeep list enrollments -o json > enrollments.json")
    enrollments = json.loads((host.work / "enrollments.json").read_text())
    token = next(one["token"] for one in enrollments if one["identity"]["name"] == "mover")
    subprocess.run("openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout client.key -out client.csr -subj /CN=client".split(),
                   cwd=host.work, check=True, capture_output=True)
    host.run("curl --fail --silent --show-error --insecure --noproxy '*' -H 'content-type: application/pkcs10' --data-binary @client.csr "
             f"'https://127.0.0.1:{host.port}/edge/client/v1/enroll?method=ott&token={token}'")


def watch(host):
    until(lambda: list((host.place / "snapshots").glob("*.snapshot")), 90, "there was no scheduled snapshot")
    host.run("overkeep doctor")
    ending = host.run("overkeep expiring --within 30d", status=3).splitlines()[1:]
    expect(len(ending) == 1 and ending[0].split()[1:3] == ["alice", "enrollment"], f"what ends soon: {ending}")
    host.run("overkeep online && overkeep list online && overkeep sessions && overkeep list api-sessions && overkeep list hosting")
    host.run("overkeep pki status && overkeep pki renew-key && overkeep check && { overkeep explain dial alice wiki || test $? = 3; }")
    host.run("overkeep history list && overkeep update identity alice --add-role sales && overkeep update identity alice --remove-role sales")
    host.run("overkeep create service-policy p --type Dial --semantic AnyOf --service-roles @wiki && "
             "overkeep update service-policy p --add-role identity:@alice --remove-role service:@wiki && overkeep delete service-policy p")
    enroll(host)
    host.run("overkeep request-extend certificates && overkeep list authenticators --filter 'method = \"cert\"' -o name > certificates")
    host.run("overkeep request-extend authenticator $(cat certificates) --roll-keys && overkeep delete identity mover")
    for path in ("health", "ready", "health-checks"):
        host.run(f"curl --fail --silent --show-error --insecure --noproxy '*' https://127.0.0.1:{host.port}/{path}")
    expect("overkeep_store_writable 1" in fetch(f"http://127.0.0.1:{host.metrics}/metrics"), "the metrics do not say that the file can be written")
    host.run("overkeep admin reset-password admin")


def break_and_restore(host):
    host.run("overkeep snapshot kept && overkeep check kept && overkeep restore --verify-only kept && overkeep drill kept")
    host.run(f"overkeep drill --config {host.root}/etc/overkeep/controller.toml")
    host.run("systemctl stop overkeep && overkeep repair && overkeep compact")
    with open(host.data, "r+b") as file:
        file.seek(8192)
        file.write(b"\xa5" * 60000)
    host.run("overkeep check ../root/var/lib/overkeep/overkeep.redb", status=3)
    host.run("systemctl start overkeep", status=1)
    said = host.run("overkeep repair --drop-unreadable", status=3)
    expect("overkeep restore SNAPSHOT" in said, f"repair does not say what helps: {said}")
    host.run("overkeep restore kept && systemctl start overkeep && overkeep check && overkeep show service wiki")
    expect(list(host.data.parent.glob("overkeep.redb.before-restore-*")), "the damaged file was not kept")


def upgrade(host, package):
    host.repackage(package, "99.0")
    page = Page("upgrade.md")
    for block in page.section("One release or several"):
        # The second block is for the new binary beside the old one.
        host.run(block, words={"./overkeep-NEW ": "overkeep "})
    host.run("overkeep show service wiki && overkeep check before-the-upgrade")
    expect("Version: 99.0" in (host.root / "var/lib/dpkg/status").read_text(), "dpkg does not know the new version")
    # A file of the first format.
    host.run("systemctl stop overkeep")
    kept = host.data.with_name("kept")
    shutil.move(host.data, kept)
    with gzip.open(ROOT / "tests/data/format-1.redb.gz") as old, open(host.data, "wb") as new:
        shutil.copyfileobj(old, new)
    host.data.chmod(0o600)
    host.run("systemctl start overkeep && overkeep check && systemctl stop overkeep")
    copies = [path for path in host.data.parent.glob("overkeep.redb.before-*") if "-restore-" not in path.name]
    expect(copies, "the start made no copy of the earlier file")
    shutil.move(kept, host.data)
    host.run("systemctl start overkeep && overkeep show service wiki")


def adopt(host):
    """Adopts an authority, which nobody has to trust because nobody enrolled here."""
    key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    (host.work / "authority").write_text("basicConstraints = critical, CA:TRUE\nkeyUsage = critical, keyCertSign, cRLSign\n")
    for command in (f"req -x509 {key} -keyout root.key -out cas.pem -subj /CN=root -days 3650",
                    f"req {key} -keyout signing.key -out signing.csr -subj /CN=signing",
                    "x509 -req -in signing.csr -CA cas.pem -CAkey root.key -CAcreateserial -days 3650 -extfile authority -out signing.cert"):
        subprocess.run(["openssl", *command.split()], cwd=host.work, check=True, capture_output=True)
    host.run("overkeep pki adopt --signing-cert signing.cert --signing-key signing.key --root-bundle cas.pem && overkeep pki status && overkeep check")


def leave(host):
    host.run("overkeep export > leaving.yaml && grep -q wiki leaving.yaml && systemctl stop overkeep && dpkg -r overkeep")
    expect(not (host.root / "usr/bin/overkeep").exists(), "the program is still there")
    expect("is kept" in host.run("dpkg -P overkeep") and host.data.exists(), "the data went with the package")


def main(binary, busybox):
    with tempfile.TemporaryDirectory(prefix="day-") as directory:
        place = pathlib.Path(directory)
        stripped = place / "stripped"
        subprocess.run(["strip", "--strip-debug", "-o", stripped, binary], check=True)
        # Compression would take minutes.
        environment = {**os.environ, "DPKG_DEB_COMPRESSOR_TYPE": "none"}
        subprocess.run([ROOT / "examples/packaging/build", "--binary", stripped], check=True, stdout=subprocess.DEVNULL, env=environment)
        package = next((ROOT / "dist").glob("overkeep_*.deb"))
        page = Page("operating.md")
        (place / "host").mkdir()
        (place / "old").mkdir()
        host = Host(place / "host", busybox, package)
        with controller(binary, place / "old") as old:
            try:
                install(host, page)
                create(host, page)
                apply(host, page, old)
                watch(host)
                break_and_restore(host)
                upgrade(host, package)
                adopt(host)
                leave(host)
            finally:
                host.end()
        ran = host.commands()
    expect(not page.open, f"blocks of operating.md did not run: {page.open}")
    missing = [named for named in page.named() if not any(is_like(named, one) for one in ran)]
    expect(not missing, f"commands of operating.md did not run: {missing}")
    print(f"ok day: {len(ran)} commands, {len(page.named())} of them named in the text of operating.md")


if __name__ == "__main__":
    try:
        main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
    except Failed as reason:
        sys.exit(f"FAIL day: {reason}")
