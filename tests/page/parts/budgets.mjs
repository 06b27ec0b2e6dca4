// Times of the page as ratios to a floor that is measured in the same run: the same bytes or the same answers, asked by the same browser without the page.

import { SETTLED, expect, open, origin, signedIn } from "../browser.mjs";
import { createMany } from "../seed.mjs";

/** The most of each ratio. They are about twice what docs/performance.md has, because other programs run beside the gate. */
const MOST = { load: 4, list: 5, explain: 7, overview: 3, map: 3, live: 4 };
const ROUNDS = 7;
const FEW_ROUNDS = 3; // of pages that take long
const ROWS = 1000;

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

/** The median times of two actions, which take turns so that both meet the same load of the machine. */
async function compare(floor, action, rounds = ROUNDS) {
  const times = [[], []];
  for (let round = 0; round < rounds; round++) {
    for (const [index, measured] of [floor, action].entries()) {
      const start = performance.now();
      const own = await measured();
      times[index].push(own ?? performance.now() - start);
    }
  }
  return times.map(median);
}

/** Paths of the answers that a page asked for. */
function recorder(page) {
  const paths = [];
  page.on(
    "request",
    (request) =>
      request.method() === "GET" &&
      !request.url().endsWith("/events") &&
      paths.push(request.url().slice(origin.length)),
  );
  return paths;
}

/** The time in which the browser gets these paths without the page, as many at once as a page may. */
const fetchAll = (page, paths, cache = "default") =>
  page.evaluate(
    async ([paths, cache]) => {
      const token = Object.values(sessionStorage)
        .map((text) => {
          try {
            return JSON.parse(text).token;
          } catch {
            return null;
          }
        })
        .find(Boolean);
      const start = performance.now();
      await Promise.all(
        paths.map((path) =>
          fetch(path, {
            cache,
            credentials: "omit",
            headers: { accept: "application/json", ...(token ? { "zt-session": token } : {}) },
          }).then((answer) => answer.text()),
        ),
      );
      return performance.now() - start;
    },
    [paths, cache],
  );

/** The time from a change of the address until the page shows all of what it names. */
const show = async (page, hash, shown) => {
  await open(page, "#/cas/_new");
  return page.evaluate(
    ([to, shown]) =>
      new Promise((done) => {
        const start = performance.now();
        location.hash = to;
        const look = () =>
          location.hash === to &&
          document.querySelector(shown) &&
          !document.querySelector(".loading")
            ? done(performance.now() - start)
            : requestAnimationFrame(look);
        look();
      }),
    [hash, shown],
  );
};

/** What the page takes beside a plain download of what it asks for: the first load, a list of a thousand records, an explanation, the overview, the map, the live page. */
export async function budgets(browser, ask, ids) {
  await createMany(ask, {
    services: Array.from({ length: ROWS }, (_, index) => ({
      name: `budget-${index}`,
      encryptionRequired: true,
      roleAttributes: ["budget"],
    })),
  });
  const page = await signedIn(browser, 1280, "light");
  const measured = {};
  // Files of the page and documents of the interface, without the cache of the browser.
  const files = await page.evaluate(() =>
    performance
      .getEntriesByType("resource")
      .map(({ name }) => new URL(name).pathname)
      .filter((path) => /^\/page\/|openapi\.json$/.test(path)),
  );
  const session = await page.context().newCDPSession(page);
  await session.send("Network.enable");
  await session.send("Network.setCacheDisabled", { cacheDisabled: true });
  await open(page, "#/cas/_new");
  measured.load = await compare(
    () => fetchAll(page, ["/", ...files], "no-store"),
    async () => {
      const start = performance.now();
      await page.reload();
      await page.waitForFunction(SETTLED, null, { polling: 20 });
      return performance.now() - start;
    },
  );
  await session.send("Network.setCacheDisabled", { cacheDisabled: false });
  const paths = recorder(page);
  const answers = async (hash, shown) => {
    await show(page, hash, shown);
    paths.length = 0;
    await show(page, hash, shown);
    return [...new Set(paths)].filter((path) => !path.includes("/cas"));
  };
  for (const [name, hash, shown] of [
    ["list", "#/services?filter=budget", "#content tbody tr"],
    ["explain", `#/access/ask?identity=${ids.alice}&service=${ids.builds}`, ".verdict"],
    ["overview", "#/overview", ".tiles"],
    ["map", "#/access/map", ".map .lines path"],
    ["live", "#/live", "#content .charts"],
  ]) {
    const asked = await answers(hash, shown);
    measured[name] = await compare(
      () => fetchAll(page, asked),
      () => show(page, hash, shown),
      ["map", "live"].includes(name) ? FEW_ROUNDS : ROUNDS,
    );
  }
  await page.context().close();
  for (const [name, [floor, time]] of Object.entries(measured)) {
    const ratio = time / floor;
    console.log(
      `${name}: ${time.toFixed(0)} ms, the same answers without the page ${floor.toFixed(0)} ms, ${ratio.toFixed(1)}x`,
    );
    expect(
      ratio <= MOST[name],
      `${name} takes ${ratio.toFixed(1)} times as long as its answers, ${MOST[name]} at most`,
    );
  }
}
