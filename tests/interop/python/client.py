"""The steps of an application with the Python library: enroll once, then dial a service by its intercept address.

usage: client.py JWT-FILE IDENTITY-FILE [CERTIFICATE-FILE KEY-FILE] SERVICE=HOST:PORT...

The optional certificate is one of a third-party authority and is used to enroll. Services beyond the first are only looked up. Prints one JSON object a line for each step reached:
{"step": "enroll"}, {"step": "authenticate"}, {"step": "service", "services": [those that it sees]}, {"step": "dial"}.
The native library waits without a limit; the caller limits the run time.
"""
import ctypes
import json
import os
import socket
import sys

import openziti
from openziti import zitilib


def say(step, **facts): print(json.dumps({"step": step, **facts}), flush=True)


def is_service_address(host, port):
    """Whether the library gives the host an address of its own, which it does for the services that it was listed.

    The Python part does not wrap this call of the native library: a getaddrinfo with hints, here without any.
    """
    no_hints, found = ctypes.create_string_buffer(64), ctypes.c_void_p()
    return zitilib.ziti.Ziti_resolve(host.encode(), port.encode(), no_hints, ctypes.byref(found)) == 0


def dial(host, port):
    """The library's own error, (number, text), of a connection through the overlay; None if it was made."""
    try:
        zitilib.connect_addr(zitilib.ziti_socket(socket.SOCK_STREAM), (host, int(port)))
    except Exception as error:      # the library raises no more specific exception
        return error.args
    return None


def main(jwt, identity, *more):
    services = {name: address.rsplit(":", 1) for name, address in (service.split("=", 1) for service in more if "=" in service)}
    certificate, key = [file.encode() for file in more if "=" not in file] or (None, None)     # the native library needs the file names
    with open(os.open(identity, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(openziti.enroll(jwt, key, certificate))
    say("enroll", version=openziti.version().version.decode())
    openziti.load(identity)         # returns when the controller has accepted the certificate and listed the services
    say("authenticate")
    say("service", services=[name for name, address in services.items() if is_service_address(*address)])
    say("dial", failure=dial(*next(iter(services.values()))))
    os._exit(0)                     # the library's own thread would continue


if __name__ == "__main__":
    main(*sys.argv[1:])
