// Every page, light and dark, from 360 to 3840 px, with traffic.

import { check, everyPage, expect, open, provoke, signedIn } from "../browser.mjs";
import { CIRCUITS, REMOTE, carry } from "../network.mjs";

const WINDOWS = [
  [1280, "light"],
  [360, "dark"],
  [1280, "dark"],
  [360, "light"],
  [3840, "light"],
  [3840, "dark"],
];
const HOSTS = [...new Set(CIRCUITS.map(([, , host]) => host))];

/** What pages show of the traffic: a text, or a condition in the window. */
const TRAFFIC = {
  "#/live": [
    ...CIRCUITS.map((circuit) => [
      (names) =>
        [...document.querySelectorAll("tr")].some(
          (row) =>
            names.every((name) => row.textContent.includes(name)) &&
            (row.textContent.match(/[\d.]+ [KM]?i?B\/s/g) || []).filter(
              (rate) => !rate.startsWith("0 "),
            ).length === 2,
        ),
      circuit,
    ]),
    ...HOSTS.map((host) => [
      (name) =>
        [...document.querySelectorAll("tr")].some(
          (row) => row.textContent.includes(name) && /127\.0\.0\.1:\d+/.test(row.textContent),
        ),
      host,
    ]),
    [() => /^[1-9]/.test(document.querySelector(".legend .up strong")?.textContent), null],
    // The link to the remote router, and the circuit over it, which is counted once.
    [
      (count) =>
        [...document.querySelectorAll(".legend .up")].some(
          ({ textContent }) => textContent.trim() === `Circuits ${count}`,
        ),
      CIRCUITS.length,
    ],
    [
      (name) =>
        [...document.querySelectorAll("tr")].some(
          (row) =>
            row.textContent.includes(name) &&
            row.querySelector(".state.on")?.textContent === "Connected",
        ),
      REMOTE,
    ],
    [
      (name) =>
        [...document.querySelectorAll(".path")].some((path) =>
          path.textContent.includes(` ${name}, `),
        ),
      REMOTE,
    ],
  ],
  "#/overview": [REMOTE, ...HOSTS].map((host) => [
    (name) =>
      [...document.querySelectorAll(".columns .state.on")].some(
        ({ textContent }) => textContent === name,
      ),
    host,
  ]),
  "#/access": [[() => document.querySelector(".node.on"), null]],
  "#/terminators": CIRCUITS.map(([service]) => [
    (name) => document.querySelector("#content table")?.innerText.includes(name),
    service,
  ]),
  "#/sessions": [
    [(name) => document.querySelector("#content table")?.innerText.includes(name), CIRCUITS[0][1]],
  ],
  "#/api-sessions": HOSTS.map((host) => [
    (name) => document.querySelector("#content table")?.innerText.includes(name),
    host,
  ]),
  "#/identities": [
    [
      (name) =>
        [...document.querySelectorAll("tr")].some(
          (row) => row.textContent.includes(name) && row.querySelector(".state.on"),
        ),
      CIRCUITS[0][1],
    ],
  ],
};

/** Every page in every width and theme, two windows at a time. */
export async function walk(browser, ask, ids) {
  const stop = await carry(ask, ids);
  try {
    const first = await signedIn(browser, 1280, "light");
    const pages = await everyPage(first, ask, ids);
    await first.context().close();
    const unvisited = Object.keys(TRAFFIC).filter((hash) => !pages.includes(hash));
    expect(!unvisited.length, `no page ${unvisited}`);
    const waiting = [...WINDOWS];
    const visit = async () => {
      for (let window = waiting.shift(); window; window = waiting.shift()) {
        const page = await signedIn(browser, ...window);
        const where = `at ${window[0]} px, ${window[1]}`;
        for (const hash of pages) {
          await open(page, hash);
          for (const [condition, value] of TRAFFIC[hash] || [])
            await page
              .waitForFunction(condition, value, { timeout: 20000 })
              .catch(() => expect(false, `${hash} ${where} does not show the traffic: ${value}`));
          await check(page, `${hash} ${where}`, true);
        }
        console.log(`${pages.length} pages ${where}`);
        await page.context().close();
      }
    };
    await Promise.all([visit(), visit()]);
  } finally {
    await stop();
  }
}

/** What breaks a promise of every page, and the fault that must be reported for it, some by axe. */
const BROKEN = [
  [
    () => {
      document
        .querySelector("#content")
        .insertAdjacentHTML("beforeend", `<div class="faulty">${"wide".repeat(200)}</div>`);
      document.querySelector(".faulty").style.width = "4000px";
    },
    /px wider than its window/,
  ],
  [
    () => {
      document.body.style.overflow = "clip";
      document.querySelector("#content h1").style.cssText = "position: relative; left: -3000px";
    },
    /beyond the edge/,
  ],
  [
    () => {
      document.querySelector("#content h1").textContent = "undefined";
    },
    /shows undefined/,
  ],
  [
    () => {
      document
        .querySelector("#content")
        .insertAdjacentHTML("beforeend", '<img src="/page/icon.svg">');
    },
    /image-alt/,
    true,
  ],
  [
    () => {
      document.querySelector("#content h1").style.color = "#eee";
    },
    /color-contrast/,
    true,
  ],
  [
    () => {
      document
        .querySelector("#content")
        .insertAdjacentHTML("beforeend", '<p style="color: red">styled</p>');
    },
    /against the policy: style-src/,
  ],
  [
    () => {
      const script = document.createElement("script");
      script.textContent = "window.ran = true";
      document.body.append(script);
    },
    /against the policy: script-src/,
  ],
  [() => fetch("https://localhost:9/").catch(() => null), /against the policy: connect-src/],
  [
    () => {
      console.error("a fault");
    },
    /console error: a fault/,
  ],
  [
    () => {
      setTimeout(() => {
        throw new Error("a fault");
      });
    },
    /a script failed: Error: a fault/,
  ],
  [() => fetch("/edge/management/v1/services/none").catch(() => null), /answered 40/],
];

/** Every check that the walk makes of a page reports its fault. */
export async function faultsAreSeen(browser) {
  const page = await signedIn(browser, 1280, "light");
  for (const [breaks, expected, byAxe] of BROKEN) {
    await page.reload();
    await open(page, "#/history");
    const faults = await provoke(async () => {
      await page.evaluate(breaks);
      await page.waitForTimeout(100);
      await check(page, "a broken page", byAxe);
    });
    expect(
      faults.some((fault) => expected.test(fault)),
      `nothing reports ${expected}, but ${faults.join("; ")}`,
    );
  }
  await page.context().close();
  // Without the policy a request would leave.
  const unguarded = await signedIn(browser, 1280, "light", () => false, { bypassCSP: true });
  const left = await provoke(async () => {
    await unguarded.evaluate(() => fetch("https://localhost:9/").catch(() => null));
    await unguarded.waitForTimeout(100);
  });
  for (const expected of [/asks for https:\/\/localhost:9/, /GET https:\/\/localhost:9\/ failed/])
    expect(
      left.some((fault) => expected.test(fault)),
      `nothing reports ${expected}, but ${left.join("; ")}`,
    );
  await unguarded.context().close();
}
