"""Runs the blocks of the README in order. See `run`."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

START, WALK = 30, 300       # seconds
ASKED = 20                  # requests after those of the README
PORTS = 1280, 8000, 8080    # of the README; the walk takes free ones
AGAIN = f"""
for turn in $(seq {ASKED}); do
    timeout 30 curl -sS http://127.0.0.1:8080/hello.txt > answer && grep -qx 'hello from the other side' answer || {{ echo "request $turn was not answered"; exit 1; }}
done
test "$(stat -c %a alice.jwt server.jwt alice.json server.json | sort -u)" = 600
echo "{ASKED} more requests were answered"
"""

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(socket_of_host, process, log):
    end = time.monotonic() + START
    while time.monotonic() < end and process.poll() is None:
        if socket_of_host.exists():
            return
        time.sleep(0.1)
    sys.exit(f"FAIL readme: the controller did not start: {log.read_text()[-800:]}")


def main(root, binary):
    text = (root / "README.md").read_text()
    blocks, ports = BLOCK.findall(text), {port: free_port() for port in PORTS}
    port = ports[1280]
    commands = [body for language, body in blocks if language == "bash"]
    expected = [after for (language, _), (next_language, after) in zip(blocks, blocks[1:]) if (language, next_language) == ("bash", "text")]
    if not commands or not expected:
        sys.exit("FAIL readme: no block is marked bash, or none says what comes out")
    script = "set -euo pipefail\n" + "\n".join(commands) + AGAIN
    for written, free in ports.items():
        script = re.sub(rf"(?<=[: ]){written}\b", str(free), script)
    cache = root / "target" / "interop" / "pip"
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="readme-") as directory:
        place = pathlib.Path(directory)
        log = place / "log"
        env = {name: value for name, value in os.environ.items() if not name.startswith("OVERKEEP_")}
        env |= {"PIP_CACHE_DIR": str(cache), "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PATH": f"{binary.parent}:{env['PATH']}"}
        with open(log, "wb") as out:
            controller = subprocess.Popen([binary, "run", "--listen", f"127.0.0.1:{port}"], cwd=place,
                                          env=env, stdout=out, stderr=out, start_new_session=True)
        try:
            wait_for(place / "overkeep.redb.sock", controller, log)
            # In a process session of its own, so that its background processes can be ended.
            shell = subprocess.Popen(["bash", "-c", script], cwd=place, env=env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, start_new_session=True)
            try:
                output, _ = shell.communicate(timeout=WALK)
            except subprocess.TimeoutExpired:
                os.killpg(shell.pid, signal.SIGKILL)
                output = shell.communicate()[0] + f"\nit did not end within {WALK} s"
            finally:
                try:
                    os.killpg(shell.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        finally:
            controller.terminate()
            controller.wait(START)
        missing = [lines for lines in [*expected, f"{ASKED} more requests were answered"] if lines.strip() not in output]
        if shell.returncode or missing:
            print(f"FAIL readme: status {shell.returncode}, {len(missing)} outputs missing\n{output}\nthe controller's log ends:\n{log.read_text()[-2000:]}")
            return 1
    print(f"ok readme: {len(commands)} blocks, {len(expected)} outputs as shown")
    return 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
