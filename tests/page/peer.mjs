// A client with the Go SDK of OpenZiti (tests/interop/go/peer): a process that takes commands, each a line of JSON.

import { spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";

/** Enrolls an identity in a new process: a new one with these roles, or an existing one. Returns a function that sends a command and waits for its result, with `stop`. */
export async function join(program, ask, work, name, { roleAttributes = [], id: existing } = {}) {
  const id =
    existing ||
    (
      await ask("POST", "/identities", {
        name,
        type: "Default",
        isAdmin: false,
        roleAttributes,
        enrollment: { ott: true },
      })
    ).id;
  const { enrollment } = await ask("GET", `/identities/${id}`);
  const [identity, jwt] = ["json", "jwt"].map((kind) => path.join(work, `${name}.${kind}`));
  fs.writeFileSync(jwt, enrollment.ott.jwt);
  const running = spawn(program, { stdio: ["pipe", "pipe", "ignore"] });
  const waiting = new Map();
  createInterface({ input: running.stdout }).on("line", (line) => {
    const answer = JSON.parse(line);
    waiting.get(answer.id)?.(answer);
    waiting.delete(answer.id);
  });
  running.on("exit", () => waiting.forEach((tell) => tell({ failure: "the program ended" })));
  let last = 0;
  const run = async (command, more = {}) => {
    const number = ++last;
    const { failure, done } = await new Promise((tell) => {
      waiting.set(number, tell);
      running.stdin.write(`${JSON.stringify({ id: number, do: command, ...more })}\n`);
    });
    if (failure) throw new Error(`${name} ${command}: ${failure}`);
    return done;
  };
  run.id = id;
  run.stop = () => running.kill();
  await run("enroll", { jwt, identity });
  await run("load", { identity });
  return run;
}
