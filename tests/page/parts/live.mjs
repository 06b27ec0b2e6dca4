// Traffic and events as they happen.

import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { SETTLED, check, expect, logIn, open, signedIn, windowOf } from "../browser.mjs";
import { join } from "../peer.mjs";

export * from "./history.mjs";

/** Real traffic of two clients with an SDK: the record of one shows that it is connected, circuits are listed with their rates, charted, and one can be ended. */
export async function traffic(browser, ask) {
  const work = fs.mkdtempSync(path.join(os.tmpdir(), "page-"));
  const peers = [];
  let isOver = false;
  try {
    const service = await ask("POST", "/services", {
      name: "echo",
      encryptionRequired: true,
      roleAttributes: ["echoing"],
    });
    for (const type of ["Dial", "Bind"]) {
      await ask("POST", "/service-policies", {
        name: `echo ${type}`,
        type,
        semantic: "AnyOf",
        identityRoles: ["#echoing"],
        serviceRoles: [`@${service.id}`],
      });
    }
    for (const name of ["echo-host", "echo-client"])
      peers.push(await join(process.env.PEER, ask, work, name, { roleAttributes: ["echoing"] }));
    const [host, client] = peers;
    const page = await signedIn(browser, 1280, "light");
    await open(page, `#/identities/${host.id}`);
    await page.getByText("The client is enrolled").waitFor();
    await host("host", { name: "echo", service: "echo" });
    await page.getByText("It is connected to an edge router").waitFor();
    await client("open", { name: "c", service: "echo" });
    const carrying = (async () => {
      while (!isOver) await client("echo", { name: "c", bytes: 64 << 10 });
    })().catch(() => null);
    await open(page, "#/live");
    const row = page
      .getByRole("row")
      .filter({ hasText: "echo" })
      .filter({ hasText: "echo-client" })
      .filter({ hasText: "echo-host" });
    await row.waitFor();
    // Both directions carry at least a KiB a second.
    await page.waitForFunction(() =>
      [...document.querySelectorAll("tr")].some(
        (found) =>
          found.textContent.includes("echo-host") &&
          (found.textContent.match(/[\d.]+ [KM]iB\/s/g) || []).length === 2,
      ),
    );
    await page
      .getByRole("row")
      .filter({ hasText: "echo-client" })
      .filter({ hasText: "127.0.0.1" })
      .waitFor();
    const rates = await row.locator("td.number").allTextContents();
    const [circuit] = await ask("GET", "/overkeep/v1/circuits");
    expect(
      circuit.client.sentBytes > 0 && circuit.host.sentBytes > 0,
      `the controller counts what the clients sent: ${JSON.stringify(circuit)}`,
    );
    await page.locator(".chart").first().waitFor();
    // The arrow keys read the chart; its values and the time are told.
    await page.locator(".chart").first().focus();
    await page.keyboard.press("Home");
    await page.locator(".chart path.at").waitFor({ state: "attached" });
    const told = await page.locator(".chart").first().getAttribute("aria-valuetext");
    expect(
      /\d:\d\d:\d\d: Sent by the client .+B\/s, Sent by the host .+B\/s$/.test(told),
      `a chart tells ${told}`,
    );
    await check(page, "#/live with traffic", true);
    await page.getByRole("button", { name: "End the circuit to echo?" }).click();
    let ends = 0;
    page.on("request", (request) => request.method() === "DELETE" && ends++);
    await page
      .getByRole("dialog")
      .getByRole("button", { name: "End" })
      .evaluate((button) => {
        button.click();
        button.click();
      });
    await page.getByText("No traffic at the moment").waitFor();
    expect(ends === 1, `a double click ends a circuit ${ends} times`);
    isOver = true;
    await carrying;
    await page.context().close();
    console.log(`real traffic shown (${rates.join(", ")}) and ended`);
  } finally {
    isOver = true;
    for (const peer of peers) peer.stop();
    fs.rmSync(work, { recursive: true });
  }
}

/** Events are shown once and none is missed, whether the computer slept or was without network. */
export async function resume(browser, ask) {
  const page = await windowOf(browser, 1280, "light");
  const streams = [];
  page.on(
    "request",
    (request) =>
      request.url().endsWith("/overkeep/v1/events") &&
      streams.push(request.headers()["last-event-id"]),
  );
  await page.clock.install();
  await logIn(page);
  await page.waitForFunction(SETTLED);
  await open(page, "#/live");
  await page.locator(".chart").first().waitFor();
  const happens = async (name) => {
    await ask("POST", "/identities", { name, type: "Default", isAdmin: false });
  };
  const seen = (name) =>
    page.getByRole("log").locator("li.of-create").filter({ hasText: name }).first().waitFor();
  await page.locator(".pulse.on").waitFor();
  // It sleeps before the first event.
  await page.context().setOffline(true);
  await page.clock.fastForward(60000);
  await page.locator(".pulse.off").waitFor();
  await happens("during-sleep");
  await page.context().setOffline(false);
  await page.clock.fastForward(20000);
  await seen("during-sleep");
  await happens("after-sleep");
  await seen("after-sleep");
  for (const name of ["during-sleep", "after-sleep"]) {
    expect(
      (await page.getByRole("log").locator("li.of-create").filter({ hasText: name }).count()) === 1,
      `the creation of ${name} is shown once`,
    );
  }
  expect(
    streams.length > 1 && streams.at(-1) > 0,
    `the stream resumes after the last event: ${streams}`,
  );
  await page.context().close();
}

/** A steady stream of events does not keep the overview from being read anew, nor does each of them read it. */
export async function overviewInStream(browser, ask, ids) {
  const EVENTS = 40;
  const page = await signedIn(browser, 1280, "light");
  await page.locator(".pulse.on").waitFor();
  let [loads, isOver] = [0, false];
  // An answer that takes longer than the interval is shown nevertheless.
  await page.route("**/overkeep/v1/attention", async (route) => {
    loads++;
    await new Promise((done) => setTimeout(done, 1200));
    await route.continue().catch(() => null); // the window may be closed by now
  });
  await ask("POST", `/identities/${ids.kofi}/disable`, { durationMinutes: 0 });
  const stream = page
    .evaluate(async (count) => {
      const { onHistoryRow } = await import("/page/news.js");
      for (let sequence = 1; sequence <= count; sequence++) {
        onHistoryRow({
          sequence,
          kind: "identity",
          action: "update",
          at: new Date().toISOString(),
          by: { who: "system" },
        });
        await new Promise((done) => setTimeout(done, 100));
      }
    }, EVENTS)
    .then(() => {
      isOver = true;
    });
  await page
    .locator(".needs")
    .getByText(/disabled:.*kofi/)
    .waitFor();
  expect(!isOver, "the overview waits for the end of a stream of events");
  await stream;
  expect(loads > 1 && loads < EVENTS / 5, `${EVENTS} events read the overview ${loads} times`);
  // Rows that were removed before the page read them: anything may have changed.
  await page.waitForTimeout(2500);
  const again = page.waitForRequest("**/overkeep/v1/attention", { timeout: 5000 });
  await page.evaluate(() =>
    import("/page/news.js").then(({ onHistoryRow }) => onHistoryRow({ from: 1, to: 9 }, "gone")),
  );
  await again;
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await page.context().close();
  await ask("POST", `/identities/${ids.kofi}/enable`);
}

/** What the live page counts is all there is, also where it shows the first hundred only. */
export async function counts(browser) {
  const page = await windowOf(browser, 360, "dark");
  const routers = Array.from({ length: 100 }, (_, index) => ({
    id: `r${index}`,
    name: `router-${index}`,
    isOnline: index % 2 === 0,
  }));
  const answer = (rows, totalCount) => ({
    json: { data: rows, meta: { pagination: { limit: 100, offset: 0, totalCount } } },
  });
  await page.route(/\/edge-routers\?/, (route) =>
    route.fulfill(
      route.request().url().includes("online")
        ? answer(routers.slice(0, 1), 1234)
        : answer(routers, 2345),
    ),
  );
  await logIn(page);
  await page.waitForFunction(SETTLED);
  await open(page, "#/live");
  await page.getByRole("heading", { name: "Edge routers 1,234 of 2,345 online" }).waitFor();
  await page.getByRole("link", { name: "and 2,245 more" }).waitFor();
  await check(page, "many routers", true);
  await page.context().close();
}
