// The map of who may reach what: pairs, narrow windows, and many records.

import { check, expect, open, signedIn } from "../browser.mjs";
import { createMany } from "../seed.mjs";

const MAX_RATIO = 4; // of the times that the map takes with many and with few identities

/** Two clicks on the map, or the Enter key twice, lead to the explanation of a pair, from either side and for a member of a group. */
export async function explainPairs(browser, ask, ids) {
  const page = await signedIn(browser, 1280, "light");
  const node = (name) => page.locator(".map").getByRole("button", { name });
  const explained = async (who, what) => {
    await page
      .locator(".verdict")
      .getByText(new RegExp(`^May ${who} (dial|host) ${what}\\?$`))
      .waitFor();
  };
  const asked = () =>
    page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.split("?")[1])));
  // The first policy of the two groups selects nobody; another one does.
  const { id: policy } = await ask("POST", "/service-policies", {
    name: "a policy for nobody",
    type: "Dial",
    semantic: "AllOf",
    identityRoles: ["#sales", "#ghosts"],
    serviceRoles: ["#databases"],
  });
  const { id: dial } = await ask("POST", "/service-policies", {
    name: "a dial for nobody",
    type: "Dial",
    semantic: "AllOf",
    identityRoles: ["#hosts", "#ghosts"],
    serviceRoles: ["#all"],
  });
  await open(page, "#/access/map");
  await page.getByRole("link", { name: /^a policy for nobody/ }).waitFor();
  await node("#sales").focus();
  await page.keyboard.press("Enter");
  await page
    .getByText("#sales is selected. Now select a service or a group of services.")
    .waitFor();
  expect(
    (await node("#sales").getAttribute("aria-pressed")) === "true",
    "a selected group is pressed",
  );
  await page.keyboard.press("Escape");
  await page.getByText("Select an identity or a group and then a service").waitFor();
  await page.keyboard.press("Enter");
  await node("#databases").focus();
  await page.keyboard.press("Enter");
  await explained("alice", "database");
  expect((await asked()).type === "Dial", "the right is that of the policy of the pair");
  // The first members stand for their groups; the others are offered.
  await page
    .getByText("alice is one of the 5 members of #sales.")
    .getByRole("link", { name: "chen" })
    .click();
  await explained("chen", "database");
  await page
    .getByText("database is one of the 2 members of #databases.")
    .getByRole("link", { name: "reporting" })
    .click();
  await explained("chen", "reporting");
  await check(page, "the explanation of a pair of groups", false);
  // Who is no member of the group in the address does not stand for it.
  const [asksForMember] = await Promise.all([
    page.waitForResponse(/\/identities\?.*id\+%3D/, { timeout: 5000 }).catch(() => null),
    open(
      page,
      `#/access/ask?${new URLSearchParams({ identity: ids.farah, service: ids.reporting, type: "Dial", who: "#sales", what: "#databases" })}`,
    ),
  ]);
  await page.getByText("reporting is one of the 2 members of #databases.").waitFor();
  expect(
    asksForMember && !(await page.getByText("farah is one of").count()),
    "farah is no member of #sales",
  );
  // From the service to the identity, both single records.
  await open(page, "#/access/map");
  await node("reporting").click();
  await page.getByText("reporting is selected. Now select an identity").waitFor();
  await node("lena").click();
  await explained("lena", "reporting");
  expect(!(await page.locator(".others").count()), "a single record stands for no group");
  // A member of a group.
  await open(page, "#/access/map");
  await node("#hosts").click();
  await page.getByRole("button", { name: "Show members" }).click();
  await page.getByRole("button", { name: "Select wiki-host" }).click();
  await page.getByText("wiki-host is selected.").waitFor();
  const onHosts = () =>
    page
      .waitForFunction(() => document.activeElement.dataset.node === "who #hosts", null, {
        timeout: 5000,
      })
      .catch(() => expect(false, "the focus is not on the selected group"));
  await onHosts();
  await page.getByRole("button", { name: "Clear the selection" }).click();
  await onHosts();
  await node("#hosts").click();
  await page.getByRole("button", { name: "Show members" }).click();
  await page.getByRole("button", { name: "Select wiki-host" }).click();
  await page.getByText("wiki-host is selected.").waitFor();
  await check(page, "the map with a selection", true);
  await node("everything").click();
  await explained("wiki-host", "artifacts");
  expect(
    (await asked()).type === "Bind" && (await asked()).identity === ids["wiki-host"],
    "a selected member is explained by a policy that selects it",
  );
  // An answer after the map was left leads nowhere.
  await open(page, "#/access/map");
  let release;
  const held = new Promise((done) => {
    release = done;
  });
  await page.route(/service-policies\/[^/]+\/identities\?filter/, (route) =>
    held.then(() => route.continue()),
  );
  await node("#sales").click();
  await Promise.all([
    page.waitForRequest(/service-policies\/[^/]+\/identities\?filter/),
    node("#databases").click(),
  ]);
  await open(page, "#/history");
  const late = page.waitForResponse(/service-policies\/[^/]+\/identities\?filter/);
  release();
  await late;
  await page.waitForTimeout(300);
  expect(
    (await page.evaluate(() => location.hash)) === "#/history",
    "a late answer does not lead away from another page",
  );
  await page.context().close();
  for (const id of [policy, dial]) await ask("DELETE", `/service-policies/${id}`);
}

/** In a narrow window the map is a list of relations, each of which leads to its explanation with the keyboard alone. */
export async function inNarrowWindows(browser, ask) {
  const { id: policy } = await ask("POST", "/service-policies", {
    name: "nobody hosts the intranet",
    type: "Bind",
    semantic: "AnyOf",
    identityRoles: ["#ghosts"],
    serviceRoles: ["#intranet"],
  });
  const page = await signedIn(browser, 360, "light");
  await open(page, "#/access/map");
  // A group without a member has no pair to explain.
  await page
    .locator(".relations")
    .getByRole("button", { name: "#ghosts may host #intranet" })
    .click();
  await page.getByText("nobody hosts the intranet selects no member of #ghosts.").waitFor();
  expect(
    (await page.evaluate(() => location.hash)) === "#/access/map",
    "a pair without a member leads nowhere",
  );
  const pair = page
    .locator(".relations")
    .getByRole("button", { name: /^#sales may dial/ })
    .first();
  await pair.waitFor();
  await check(page, "the map in a narrow window", true);
  await pair.focus();
  await page.keyboard.press("Enter");
  await page.locator(".verdict").waitFor();
  expect(
    /identity=.+&service=.+/.test(await page.evaluate(() => location.hash)),
    "a relation leads to the explanation of a pair",
  );
  await page.setViewportSize({ width: 1280, height: 900 });
  await open(page, "#/access/map");
  await page.locator(".map").waitFor();
  expect(
    !(await page.locator(".relations").isVisible()),
    "a wide window shows lines in place of the list",
  );
  await page.context().close();
  await ask("DELETE", `/service-policies/${policy}`);
}

/** The overview counts all records, also those that no first page of a list has. */
async function countsOfMany(page, ask) {
  const [identities, enrollments] = await Promise.all(
    ["identities", "enrollments"].map((kind) => ask("GET", `/${kind}?filter=limit%20none`)),
  );
  const disabled = identities.filter((identity) => identity.disabled).length;
  const outstanding = enrollments.filter(
    ({ expiresAt }) => new Date(expiresAt) > new Date(),
  ).length;
  expect(
    identities.length > 5000 && disabled > 5 && outstanding > 100,
    `the overview has ${identities.length} identities, ${disabled} disabled, and ${outstanding} enrollments to count`,
  );
  await open(page, "#/overview");
  await page
    .locator('.tiles a[href="#/identities"] strong')
    .filter({ hasText: identities.length.toLocaleString("en-GB") })
    .waitFor();
  await page
    .locator(".needs")
    .getByText(new RegExp(`^${disabled} identities are disabled: .+, …$`))
    .waitFor();
  await page
    .locator(".needs")
    .getByText(new RegExp(`^${outstanding} enrollments are outstanding: .+, …$`))
    .waitFor();
}

/** A role with 5,000 identities takes the map no more requests than a role with 5, and at most a few times as long. */
export async function large(browser, ask) {
  const page = await signedIn(browser, 1280, "light");
  const requests = async () => {
    let count = 0;
    const counted = () => count++;
    await open(page, "#/overview");
    page.on("request", counted);
    const start = performance.now();
    await page.evaluate(() => {
      location.hash = "#/access/map";
    });
    await page.getByRole("button", { name: "#sales" }).waitFor();
    const time = performance.now() - start;
    page.off("request", counted);
    return { count, time };
  };
  const first = async () => {
    await page.waitForTimeout(1000); // news of earlier changes
    const rounds = [await requests(), await requests()];
    return {
      count: Math.min(...rounds.map(({ count }) => count)),
      time: Math.min(...rounds.map(({ time }) => time)),
    };
  };
  const before = await first();
  const names = Array.from({ length: 5000 }, (_, index) => `sales-${index}`);
  const identities = names.map((name) => ({
    name,
    type: "Default",
    isAdmin: false,
    roleAttributes: ["sales"],
  }));
  await Promise.all(
    identities
      .slice(0, 100)
      .map((identity) => ask("POST", "/identities", { ...identity, enrollment: { ott: true } })),
  );
  await createMany(ask, { identities: identities.slice(100) });
  const last = await ask(
    "GET",
    `/identities?${new URLSearchParams({ filter: 'name contains "sales-499"' })}`,
  );
  await Promise.all(
    last.map(({ id }) => ask("POST", `/identities/${id}/disable`, { durationMinutes: 0 })),
  );
  const after = await first();
  await page.getByRole("button", { name: /#sales 5,00\d members/ }).waitFor();
  expect(
    after.count <= before.count + 10,
    `the map of 5,000 identities takes ${after.count} requests, that of few ${before.count}`,
  );
  const ratio = after.time / before.time;
  expect(
    ratio <= MAX_RATIO,
    `the map of 5,000 identities takes ${ratio.toFixed(1)} times as long as that of few`,
  );
  await page.getByRole("button", { name: /#sales/ }).click();
  await page.getByRole("button", { name: "Show members" }).click();
  await page
    .getByRole("dialog")
    .getByText(/1–50 of 5,00\d/)
    .waitFor();
  await page.getByRole("dialog").getByRole("searchbox").fill("sales-4321");
  await page.getByRole("dialog").getByText("1 member", { exact: true }).waitFor();
  await page.keyboard.press("Escape");
  // The list of who may reach a service is searched and paged by the controller.
  await ask("POST", "/services", { name: "for sales", encryptionRequired: true });
  const service = (
    await ask("GET", `/services?${new URLSearchParams({ filter: 'name = "for sales"' })}`)
  )[0].id;
  await ask("POST", "/service-policies", {
    name: "sales reaches one",
    type: "Dial",
    semantic: "AnyOf",
    identityRoles: ["#sales"],
    serviceRoles: [`@${service}`],
  });
  await open(page, `#/access/ask?service=${service}`);
  await page.getByText(/1–100 of 5,00\d/).waitFor();
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByText(/101–200 of 5,00\d/).waitFor();
  await page.getByRole("searchbox", { name: "Search by a part of the name" }).fill("sales-4321");
  await page
    .locator("#content ul.plain")
    .getByRole("link", { name: "sales-4321", exact: true })
    .waitFor();
  expect(
    (await page.locator("#content ul.plain > li").count()) === 1,
    "a search among those who may reach a service finds one",
  );
  for (let index = 0; index < 7; index++)
    await ask("POST", "/edge-routers", { name: `another router ${index}` });
  await open(page, "#/access/map");
  await page.getByText(/^Showing 6 of \d+ edge routers/).waitFor();
  await page.getByRole("link", { name: "All edge routers" }).click();
  await page.waitForFunction(() => location.hash === "#/edge-routers");
  await countsOfMany(page, ask);
  await open(page, "#/access/map");
  const policyNames = [
    ...Array.from({ length: 500 }, (_, index) => `a policy ${index}`),
    "the very last one",
  ];
  await createMany(ask, {
    "service-policies": policyNames.map((name) => ({
      name,
      type: "Dial",
      semantic: "AnyOf",
      identityRoles: ["#few"],
      serviceRoles: ["#few"],
    })),
  });
  await page.locator("[data-search]").fill("the very last");
  await page.getByRole("link", { name: /the very last one/ }).waitFor();
  await page.context().close();
  console.log(`the map of 5,000 identities takes ${ratio.toFixed(1)} times as long as that of few`);
}
