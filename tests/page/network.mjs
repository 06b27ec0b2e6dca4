// Clients with an SDK that host and dial services of the seeded company, so that the page shows circuits with rates, sessions and terminators.

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { join } from './peer.mjs';

const HOSTS = { 'database-host': ['database', 'reporting'], 'wiki-host': ['wiki', 'calendar'], 'builds-host': ['builds', 'artifacts'] };
/** The service that a person uses, the bytes of one message, and the pause before the next. The shares of a processor are small. */
const USES = [
  ['farah', 'builds', 96 << 10, 150], ['farah', 'database', 6 << 10, 200], ['hana', 'artifacts', 220 << 10, 180], ['lena', 'wiki', 9 << 10, 400],
  ['lena', 'reporting', 40 << 10, 300], ['marco', 'calendar', 2 << 10, 500],
];

const pause = milliseconds => new Promise(done => setTimeout(done, milliseconds));

/** Starts the clients and waits until every circuit carries. Returns a function that stops them. */
export async function carry(ask, ids) {
  const work = fs.mkdtempSync(path.join(os.tmpdir(), 'page-'));
  const peers = [];
  let isOver = false;
  const stop = async () => {
    isOver = true;
    for (const peer of peers) peer.stop();
    fs.rmSync(work, { recursive: true });
  };
  const client = async name => {
    const peer = await join(process.env.PEER, ask, work, name, { id: ids[name] });
    peers.push(peer);
    return peer;
  };
  const use = async ([service, bytes, wait], peer) => {
    await peer('open', { name: service, service });
    await peer('echo', { name: service, bytes });
    (async () => {
      for (let round = 0; !isOver; round++) {
        // A rate that changes, as a person's does.
        await peer('echo', { name: service, bytes: Math.round(bytes * (1 + 0.6 * Math.sin(round / 5))) });
        await pause(wait);
      }
    })().catch(error => isOver || console.log(`FAIL page: ${error.message}`));
  };
  try {
    await Promise.all(Object.entries(HOSTS).map(async ([name, services]) => {
      const host = await client(name);
      for (const service of services) await host('host', { name: service, service });
    }));
    await Promise.all([...new Set(USES.map(([who]) => who))].map(async name => {
      const peer = await client(name);
      for (const [, ...what] of USES.filter(([who]) => who === name)) await use(what, peer);
    }));
  } catch (error) {
    await stop();
    throw error;
  }
  return stop;
}

/** Who uses which service of which host. */
export const CIRCUITS = USES.map(([who, service]) => [service, who, Object.keys(HOSTS).find(host => HOSTS[host].includes(service))]);
