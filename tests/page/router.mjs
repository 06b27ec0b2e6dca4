// An unmodified OpenZiti router in a process of its own, which links to the built-in router.

import { execFile, spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { freePort } from "./controller.mjs";

const PATIENCE = 60000; // it generates a key of 4096 bits

/** Creates and enrolls it with the configuration that the controller gives, and waits for its link. Returns its id and a function that stops it and deletes its record. */
export async function router(ask, work, name) {
  const { id } = await ask("POST", "/edge-routers", { name, isTunnelerEnabled: false });
  const cwd = path.join(work, name);
  const token = path.join(cwd, "token.jwt");
  fs.mkdirSync(cwd);
  fs.writeFileSync(token, (await ask("GET", `/edge-routers/${id}`)).enrollmentJwt);
  const configuration = await ask(
    "GET",
    `/overkeep/v1/edge-routers/${id}/configuration?advertise=localhost:${await freePort()}&linkPort=0`,
  );
  fs.writeFileSync(path.join(cwd, "router.yml"), JSON.stringify(configuration));
  let running;
  const stop = async () => {
    running?.kill("SIGKILL");
    await ask("DELETE", `/edge-routers/${id}`);
  };
  try {
    await promisify(execFile)(
      process.env.ROUTER,
      ["router", "enroll", "router.yml", "--jwt", token],
      { cwd, timeout: PATIENCE },
    );
    running = spawn(process.env.ROUTER, ["router", "run", "router.yml", "--cli-agent=false"], {
      cwd,
      stdio: "ignore",
    });
    for (
      const until = Date.now() + PATIENCE;
      !(await ask("GET", "/overkeep/v1/links")).some(({ isUsable }) => isUsable);

    ) {
      if (Date.now() > until || running.exitCode !== null)
        throw new Error(`the router ${name} has no link`);
      await new Promise((done) => setTimeout(done, 200));
    }
  } catch (error) {
    await stop();
    throw error;
  }
  return { id, stop };
}
