// The pictures of docs/page.md, of the seeded company with traffic.

import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { expect, open, signedIn } from "./browser.mjs";
import { carry } from "./network.mjs";

const { PICTURES, OPTIPNG } = process.env;
const MAX_BYTES = 120_000;
const MINUTES = 3; // of traffic before the pictures, so that the charts have a line

/** Fills the form of a service policy, so that its preview names who gains access. */
async function preview(page) {
  await page.getByLabel("Name").fill("support reaches databases");
  for (const [label, role] of [
    ["Identity roles", "#support"],
    ["Service roles", "#databases"],
  ]) {
    await page.getByRole("combobox", { name: label }).fill(role.slice(0, 5));
    await page.getByRole("option", { name: role }).click();
  }
  await page.locator(".gained").first().waitFor();
  await page.keyboard.press("Escape");
  await page.locator("h1").click();
}

/** Fills the form of a service that is shared. */
async function share(page) {
  await page.setViewportSize({ width: 1200, height: 800 });
  await page.getByLabel("Name of the service").fill("shop");
  await page.getByLabel("Where the server is").fill("127.0.0.1:80");
  for (const [label, who] of [
    ["Who hosts it", "wiki-host"],
    ["Who may use it", "#sales"],
  ]) {
    await page.getByRole("combobox", { name: label }).fill(who);
    await page.getByRole("option", { name: who }).first().click();
  }
  await page.locator(".gained").first().waitFor();
  await page.locator("h1").click();
}

/** The name of a picture, its page, the window, and what happens before it is taken. */
const list = (ids) => [
  ["overview", "#/overview", [1200, "light"]],
  ["access", "#/access/map", [1200, "light"]],
  ["explain", `#/access/ask?identity=${ids.alice}&service=${ids.builds}`, [1200, "dark"]],
  ["live", "#/live", [1200, "light"], (page) => page.setViewportSize({ width: 1200, height: 960 })],
  [
    "maintenance",
    "#/care",
    [1200, "light"],
    (page) => page.setViewportSize({ width: 1200, height: 720 }),
  ],
  ["preview", "#/service-policies/_new", [1200, "dark"], preview],
  ["share", "#/share", [1200, "light"], share],
  ["identity", `#/identities/${ids.alice}`, [1200, "light"]],
  ["narrow", "#/access/map", [360, "dark"]],
];

const file = (name) => path.join(PICTURES, `${name}.png`);

export async function pictures(browser, ask, ids) {
  fs.mkdirSync(PICTURES, { recursive: true });
  const stop = await carry(ask, ids);
  try {
    await new Promise((done) => setTimeout(done, MINUTES * 60_000));
    for (const [name, hash, window, prepare] of list(ids)) {
      const page = await signedIn(browser, ...window);
      await open(page, hash);
      await prepare?.(page);
      await page.waitForTimeout(2500); // two rounds of the live page
      await page.screenshot({ path: file(name) });
      await page.context().close();
    }
  } finally {
    await stop();
  }
  // After the last picture, because the clients stand still meanwhile.
  for (const [name] of list(ids)) {
    execFileSync(OPTIPNG, ["-quiet", "-o5", "-strip", "all", file(name)]);
    const { size } = fs.statSync(file(name));
    expect(size <= MAX_BYTES, `${name}.png has ${size} bytes, ${MAX_BYTES} at most`);
    console.log(`${name}.png ${size} bytes`);
  }
}
