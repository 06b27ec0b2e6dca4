"""The unmodified `ziti tunnel`: one hosts a service for an external server, one opens ports for services."""
import contextlib
import functools
import os
import random
import socket
import subprocess
import threading

import prepare
from controller import expect, free_port, until
from network import SOON
from peers import KINDS


def echo_server():
    """An external server that a tunneler connects to. Returns its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def give_back(connection):
        with connection, contextlib.suppress(OSError):
            while piece := connection.recv(64 << 10):
                connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)

    def serve():
        while True:
            threading.Thread(target=give_back, args=(listener.accept()[0],), daemon=True).start()
    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


def through_proxy(port, size, half_closes=True):
    """Sends bytes through the port of a tunneler and reads them back, to the end if the tunneler passes on that one side has ended."""
    sent = random.randbytes(size)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        def write():
            connection.sendall(sent)
            if half_closes:
                connection.shutdown(socket.SHUT_WR)
        writer = threading.Thread(target=write)
        writer.start()
        received = bytearray()
        while half_closes or len(received) < size:
            piece = connection.recv(64 << 10)
            if not piece:
                break
            received += piece
        writer.join()
    expect(received == sent, f"{len(received)} of {size} bytes came back, or others")


def tunnelers(report, running, name):
    program = prepare.ziti()
    kind = next(one["id"] for one in running.admin.get("/config-types?limit=100") if one["name"] == "host.v1")
    config = running.admin.create("/configs", name="outside", configTypeId=kind,
                                  data={"protocol": "tcp", "address": "127.0.0.1", "port": echo_server()})
    running.service("outside", configs=[config])
    running.service("inside")
    ports = {service: free_port() for service in ("outside", "inside")}
    lines = {"tunnel-host": ["host"], "tunnel-proxy": ["proxy", *(f"{service}:{port}" for service, port in ports.items())]}
    host, dialers = running.join("go0", "host"), {of: running.join(of, f"dialer-{of}") for of in KINDS}
    running.host(host, "inside")
    processes = []
    try:
        for member, line in lines.items():
            running.join("go0", member).kill()          # enrolled
            log = open(running.work / f"{member}.log", "ab")
            processes.append(subprocess.Popen([program, "tunnel", *line, "-i", running.work / f"{member}.json", "--cli-agent=false"], stdin=subprocess.DEVNULL,
                                              stdout=log, stderr=log, env={**os.environ, "HOME": str(running.work)}))
        report.judge(f"{name} hosts", lambda: until(lambda: running.terminators("outside"), SOON, "outside got no terminator"))
        for of, dialer in dialers.items():
            report.judge(f"{name} {of} to the tunneler", functools.partial(dialer.carry, "outside", 4 << 20))
        for service, port in ports.items():
            until(lambda: opened(port), SOON, f"the tunneler opened no port for {service}")
            for size in (0, 4 << 20):
                report.judge(f"{name} the tunneler to {service}: {size} bytes", functools.partial(through_proxy, port, size))
    finally:
        for process in processes:
            process.kill()
            process.wait()


def opened(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
