"""Tests the page at /docs in a real browser: reads the operations and tries one.

    look.py CHROMIUM [PICTURE]      with OVERKEEP_URL in the environment; writes screenshots PICTURE-0.png and so on

Every interface on the page must show every operation of its document. An operation that needs no session is tried and must answer.
The page must send no request elsewhere, must not violate its content security policy, and must print nothing on the console.
The browser is controlled over its DevTools protocol, through a pair of pipes.
"""
import base64
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time

PATIENCE = 60                   # seconds for every step; the browser may share its processor
FLAGS = ("--headless", "--remote-debugging-pipe", "--ignore-certificate-errors", "--no-first-run", "--no-default-browser-check",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-gpu", "--window-size=1280,1600")
# Records violations of the policy; installed before any script of the page runs.
WITNESS = """window.broken = [];
document.addEventListener('securitypolicyviolation', event => broken.push(`${event.violatedDirective}: ${event.blockedURI}`));"""
OPEN_ALL = """[...document.querySelectorAll('.opblock-tag')].filter(tag => tag.dataset.isOpen !== 'true').forEach(tag => tag.click())"""
SHOWN = """[...document.querySelectorAll('.opblock')].map(block => block.querySelector('.opblock-summary-method').textContent.trim()
  + ' ' + block.querySelector('.opblock-summary-path').dataset.path)"""
# Scrolls half a window down and returns whether that is the end; from there back to the top.
ONWARD = """(() => { const end = scrollY + innerHeight >= document.documentElement.scrollHeight - 1;
  end ? scrollTo(0, 0) : scrollBy(0, innerHeight / 2); return end; })()"""
INTERFACES = "[...document.querySelectorAll('nav a')].map(link => link.href)"
DOCUMENT = "document.querySelector('.info .url')?.textContent"
OPERATIONS = """(async () => Object.entries((await (await fetch('%s')).json()).paths)
  .flatMap(([path, item]) => Object.keys(item).map(method => method.toUpperCase() + ' ' + path)))()"""
TRIED = "document.querySelector('#operations-information-getVersion %s')"


class Wrong(Exception):
    """The page has a fault."""


class Browser:
    """Chromium with one page."""

    def __init__(self, program, profile):
        (theirs_in, self.out), (self.inward, theirs_out) = os.pipe(), os.pipe()

        def connect():      # the browser reads from 3 and writes to 4
            ends = os.dup(theirs_in), os.dup(theirs_out)
            for end, number in zip(ends, (3, 4)):
                os.dup2(end, number)

        root = ("--no-sandbox",) if os.geteuid() == 0 else ()
        self.process = subprocess.Popen([program, *FLAGS, *root, f"--user-data-dir={profile}", "about:blank"], preexec_fn=connect,
                                        close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.buffer, self.number, self.session, self.events = b"", 0, None, []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Audits"):
            self.ask(f"{domain}.enable")
        self.ask("Page.addScriptToEvaluateOnNewDocument", source=WITNESS)

    def ask(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while (answer := self.hear()).get("id") != self.number:
            self.events.append(answer)
        if "error" in answer:
            raise Wrong(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def hear(self):
        end = time.monotonic() + PATIENCE
        while b"\0" not in self.buffer:
            if not select.select([self.inward], [], [], max(0, end - time.monotonic()))[0]:
                raise Wrong(f"the browser said nothing for {PATIENCE} s")
            heard = os.read(self.inward, 1 << 16)
            if not heard:
                raise Wrong("the browser ended")
            self.buffer += heard
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def value(self, expression):
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise Wrong(f"{expression}: {result['exceptionDetails']['text']}")
        return result["result"].get("value")

    def until(self, expression, what):
        """Evaluates an expression until its value is true, and returns the value."""
        end = time.monotonic() + PATIENCE
        while not (value := self.value(expression)):
            if time.monotonic() > end:
                raise Wrong(f"{what}: not within {PATIENCE} s")
            time.sleep(0.2)
        return value

    def close(self):
        self.process.terminate()
        self.process.wait(PATIENCE)


def complaints(events, origin):
    """The faults that the browser reported."""
    for event in events:
        method, said = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            url = said["request"]["url"]
            if not url.startswith((f"{origin}/", "data:")):
                yield f"asks for {url}"
        elif method == "Network.loadingFailed":
            yield f"could not load something: {said['errorText']}"
        elif method == "Network.responseReceived" and said["response"]["status"] >= 400:
            yield f"{said['response']['url']} answered {said['response']['status']}"
        elif method == "Runtime.exceptionThrown":
            yield f"a script failed: {said['exceptionDetails'].get('exception', {}).get('description', said['exceptionDetails']['text'])}"
        elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "assert", "warning"):
            yield f"console {said['type']}: {[argument.get('value', argument.get('description')) for argument in said['args']]}"
        elif method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            yield f"log {said['entry']['level']}: {said['entry']['text']} {said['entry'].get('url', '')}"
        elif method == "Audits.issueAdded" and said["issue"]["code"] == "ContentSecurityPolicyIssue":
            yield f"against the policy: {said['issue']['details']['contentSecurityPolicyIssueDetails']}"


def read_through(browser, wanted):
    """The operations found while scrolling down the page, which renders only its visible part."""
    shown, end, bottom = set(), time.monotonic() + PATIENCE, False
    while shown != wanted and not (bottom and time.monotonic() > end):
        before = len(shown)
        shown.update(browser.value(SHOWN))
        if len(shown) == before:
            time.sleep(0.1)
        bottom = browser.value(ONWARD)
    return shown


def look(browser, page):
    """Reads the page of an interface to its end."""
    browser.ask("Page.navigate", url=page)
    browser.until("document.querySelectorAll('.opblock-tag').length", f"{page} shows tags")
    described = set(browser.value(OPERATIONS % browser.value(DOCUMENT)))
    browser.value(OPEN_ALL)
    shown = read_through(browser, described)
    if shown != described:
        raise Wrong(f"{page}: shown and described differ by {sorted(shown ^ described)}")
    print(f"{page} shows {len(shown)} operations", flush=True)
    if "GET /version" in described:
        browser.value("scrollTo(0, 0)")
        attempt(browser)
    broken = browser.value("broken")
    if broken:
        raise Wrong(f"{page}: against the policy: {broken}")


def attempt(browser):
    """Tries GET /version on the page."""
    for part, what in ((".opblock-summary-control", "it opens"), (".try-out__btn", "it can be tried"), (".execute", "it is asked")):
        browser.until(f"{TRIED % part} && ({TRIED % part}.click(), true)", f"GET /version: {what}")
    answered = browser.until(f"{TRIED % '.live-responses-table tbody .response-col_status'}?.textContent", "GET /version answers")
    if not answered.strip().startswith("200"):
        raise Wrong(f"GET /version, tried, answers {answered}")


def main(program, picture=None):
    origin, faults = os.environ["OVERKEEP_URL"], []
    with tempfile.TemporaryDirectory(prefix="docs-", ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            browser.ask("Page.navigate", url=f"{origin}/docs")
            for number, page in enumerate(browser.until(INTERFACES, "the page offers interfaces")):
                look(browser, page)
                if picture:
                    shot = browser.ask("Page.captureScreenshot", format="png")["data"]
                    pathlib.Path(f"{picture}-{number}.png").write_bytes(base64.b64decode(shot))
        except Wrong as wrong:
            faults.append(str(wrong))
        finally:
            browser.close()
    faults.extend(complaints(browser.events, origin))
    for fault in dict.fromkeys(faults):
        print(f"FAIL docs: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
