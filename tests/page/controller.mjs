// A controller of its own with an empty data file, for parts that need one.

import { spawn } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";

const PASSWORD = "the first administrator";
const PATIENCE = 30000;

export const freePort = () =>
  new Promise((done) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });

/** Starts it. Returns its address, the password of `admin`, and a function that stops it. */
export async function emptyController() {
  const work = fs.mkdtempSync(path.join(os.tmpdir(), "page-"));
  const address = `127.0.0.1:${await freePort()}`;
  const secret = path.join(work, "password");
  fs.writeFileSync(secret, PASSWORD, { mode: 0o600 });
  const line = [
    "run",
    "--data",
    path.join(work, "overkeep.redb"),
    "--listen",
    address,
    "--advertise",
    address,
    "--admin-password-file",
    secret,
  ];
  const running = spawn(process.env.BINARY, line, {
    stdio: "ignore",
    env: { ...process.env, OVERKEEP_PASSWORDS_COST: "10", OVERKEEP_ROUTER_ENABLED: "true" },
  });
  const ended = new Promise((done) => running.on("exit", done));
  const stop = async () => {
    running.kill();
    await ended;
    fs.rmSync(work, { recursive: true });
  };
  const url = `https://${address}`;
  for (const until = Date.now() + PATIENCE; ; ) {
    if (
      await fetch(`${url}/version`).then(
        (answer) => answer.ok,
        () => false,
      )
    )
      return { url, password: PASSWORD, stop };
    if (Date.now() > until || running.exitCode !== null) {
      await stop();
      throw new Error("a controller of its own did not start");
    }
    await new Promise((done) => setTimeout(done, 100));
  }
}
