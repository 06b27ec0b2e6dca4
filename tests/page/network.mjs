// Clients with an SDK that host and dial services of the seeded company, so that the page shows circuits with rates, sessions and terminators.
// One of them uses a remote router, so that there is a link and a circuit over it.

import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { join } from "./peer.mjs";
import { router } from "./router.mjs";

const HOSTS = {
  "database-host": ["database", "reporting"],
  "wiki-host": ["wiki", "calendar"],
  "builds-host": ["builds", "artifacts"],
};
/** The service that a person uses, the bytes of one message, and the pause before the next. The shares of a processor are small. */
const USES = [
  ["farah", "builds", 96 << 10, 150],
  ["farah", "database", 6 << 10, 200],
  ["hana", "artifacts", 220 << 10, 180],
  ["lena", "wiki", 9 << 10, 400],
  ["lena", "reporting", 40 << 10, 300],
  ["marco", "calendar", 2 << 10, 500],
];

/** The remote router, and who may use it and no other router. */
export const REMOTE = "harbour";
const [TRAVELLER, READS] = ["nora", ["wiki", 14 << 10, 250]];

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** Starts the remote router, which only the traveller may use; the company may use the built-in router only. Returns a function that undoes it. */
async function travel(ask, ids, work) {
  const shared = (await ask("GET", "/edge-router-policies")).filter(({ identityRoles }) =>
    identityRoles.includes("#all"),
  );
  const inside = (await ask("GET", "/edge-routers")).find(({ isOnline }) => isOnline);
  const made = [];
  const make = async (path, body) => made.push(`${path}/${(await ask("POST", path, body)).id}`);
  for (const { id } of shared)
    await ask("PATCH", `/edge-router-policies/${id}`, {
      identityRoles: ["#staff", "#hosts"],
      edgeRouterRoles: [`@${inside.id}`],
    });
  await ask("PATCH", `/edge-router-policies/${ids["everybody over every router"]}`, {
    name: "the company over its own router",
  });
  const remote = router(ask, work, REMOTE);
  await make("/service-policies", {
    name: "travellers read the wiki",
    type: "Dial",
    semantic: "AnyOf",
    identityRoles: ["#travellers"],
    serviceRoles: [`@${ids.wiki}`],
  });
  const undo = async () => {
    await remote.then(
      ({ stop }) => stop(),
      () => null,
    );
    for (const path of made) await ask("DELETE", path);
    for (const { id, name, identityRoles, edgeRouterRoles } of shared)
      await ask("PATCH", `/edge-router-policies/${id}`, { name, identityRoles, edgeRouterRoles });
  };
  const arrive = async () => {
    const { id } = await remote;
    await make("/edge-router-policies", {
      name: `travellers over the ${REMOTE}`,
      semantic: "AnyOf",
      identityRoles: ["#travellers"],
      edgeRouterRoles: [`@${id}`],
    });
    const traveller = await join(process.env.PEER, ask, work, TRAVELLER, {
      roleAttributes: ["travellers"],
    });
    made.push(`/identities/${traveller.id}`);
    return traveller;
  };
  return { arrive, undo };
}

/** Starts the clients and waits until every circuit carries. Returns a function that stops them. */
export async function carry(ask, ids) {
  const work = fs.mkdtempSync(path.join(os.tmpdir(), "page-"));
  const peers = [];
  let [isOver, undo] = [false, null];
  const stop = async () => {
    isOver = true;
    for (const peer of peers) peer.stop();
    await undo?.();
    fs.rmSync(work, { recursive: true, force: true });
  };
  const client = async (name) => {
    const peer = await join(process.env.PEER, ask, work, name, { id: ids[name] });
    peers.push(peer);
    return peer;
  };
  const use = async ([service, bytes, wait], peer) => {
    await peer("open", { name: service, service });
    await peer("echo", { name: service, bytes });
    (async () => {
      for (let round = 0; !isOver; round++) {
        // A rate that changes, as a person's does.
        await peer("echo", {
          name: service,
          bytes: Math.round(bytes * (1 + 0.6 * Math.sin(round / 5))),
        });
        await pause(wait);
      }
    })().catch((error) => isOver || console.log(`FAIL page: ${error.message}`));
  };
  try {
    const remote = await travel(ask, ids, work);
    undo = remote.undo;
    await Promise.all(
      Object.entries(HOSTS).map(async ([name, services]) => {
        const host = await client(name);
        for (const service of services) await host("host", { name: service, service });
      }),
    );
    await Promise.all(
      [...new Set(USES.map(([who]) => who))].map(async (name) => {
        const peer = await client(name);
        for (const [, ...what] of USES.filter(([who]) => who === name)) await use(what, peer);
      }),
    );
    const traveller = await remote.arrive();
    peers.push(traveller);
    await use(READS, traveller);
  } catch (error) {
    await stop();
    throw error;
  }
  return stop;
}

/** Who uses which service of which host. */
export const CIRCUITS = [...USES, [TRAVELLER, ...READS]].map(([who, service]) => [
  service,
  who,
  Object.keys(HOSTS).find((host) => HOSTS[host].includes(service)),
]);
