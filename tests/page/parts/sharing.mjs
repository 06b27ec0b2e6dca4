// A service is shared and somebody is invited with the short forms, and the lines that they show work in a shell.

import { execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import { createServer, get } from "node:http";
import os from "node:os";
import path from "node:path";
import { SETTLED, check, expect, open, signedIn, windowOf } from "../browser.mjs";
import { enroll } from "../client.mjs";
import { emptyController, freePort } from "../controller.mjs";
import { administrator } from "../seed.mjs";

const field = (page, name) => page.getByLabel(name, { exact: false }).first();
const who = (page, name) => page.getByRole("combobox", { name });
const share = (page) => page.getByRole("button", { name: "Share it" });
const machine = (page, name) =>
  page
    .locator("section.card")
    .filter({ has: page.getByRole("heading", { name: `On the machine of ${name}` }) });
const commands = (page, name) => machine(page, name).locator(".command code").allTextContents();
const step = (page, text) => page.locator(".steps li").filter({ hasText: text });

/** Picks a role that is typed, or an identity by its name. */
async function pick(page, label, value) {
  await who(page, label).fill(value);
  if (!value.startsWith("#")) await page.getByRole("option", { name: value }).first().waitFor();
  await page.keyboard.press("Enter");
}

/** An identity for a field that has no choice of this name yet. */
async function inviteFor(page, label, name, role) {
  await who(page, label).fill(name);
  await page.getByRole("button", { name: "Create identity" }).click();
  const dialog = page.getByRole("dialog", { name: "Invite" });
  expect(
    (await dialog.getByLabel("Name", { exact: false }).first().inputValue()) === name,
    "the text that matched nothing is the name of the identity",
  );
  if (role) {
    await dialog.getByRole("combobox", { name: "Roles" }).fill(role);
    await page.keyboard.press("Enter");
  }
  await dialog.locator(".preview .tallies, .preview .quiet").first().waitFor();
  await check(page, "an invitation for a form", true);
  await dialog.getByRole("button", { name: "Invite", exact: true }).click();
  await dialog.waitFor({ state: "detached" });
  await page.locator(".chip").filter({ hasText: name }).waitFor();
}

/** Fills the form of a service. */
async function fill(page, { name, host, target, to, address }) {
  await open(page, "#/words"); // a form that is open is begun anew
  await open(page, "#/share");
  await field(page, "Name of the service").fill(name);
  for (const one of host) await pick(page, "Who hosts it", one);
  await field(page, "Where the server is").fill(target);
  for (const one of to) await pick(page, "Who may use it", one);
  if (address) await field(page, "Address for tunnelers").fill(address);
}

/** A server that answers one word, and its port. */
const server = (word) =>
  new Promise((done) => {
    const running = createServer((_, answer) => answer.end(word)).listen(0, "127.0.0.1", () =>
      done([running.address().port, () => running.close()]),
    );
  });

const answerOf = (port) =>
  new Promise((done) => {
    get({ host: "127.0.0.1", port, timeout: 5000 }, (answer) => {
      let text = "";
      answer.on("data", (part) => (text += part)).on("end", () => done(text));
    }).on("error", () => done(null));
  });

/** A directory in which lines of a shell run as on a machine of its own. */
function shell() {
  const work = fs.mkdtempSync(path.join(os.tmpdir(), "page-"));
  const env = { ...process.env, PATH: `${path.dirname(process.env.BINARY)}:${process.env.PATH}` };
  const options = { cwd: work, env, stdio: "ignore" };
  const running = [];
  return {
    once: (line) => execFileSync("sh", ["-c", line], options),
    start: (line) => running.push(spawn("sh", ["-c", `exec ${line}`], options)),
    end: () => {
      for (const one of running) one.kill();
      fs.rmSync(work, { recursive: true });
    },
  };
}

/** From an empty controller to traffic, with nothing but the page and what it says to paste. */
export async function sharing(browser) {
  const { url, password, stop } = await emptyController();
  const page = await windowOf(browser, 1280, "light", undefined, {}, [url]);
  const machines = [shell(), shell()];
  const [port, close] = await server("it works");
  try {
    await page.goto(`${url}/`);
    await page.locator("#username").fill("admin");
    await page.locator("#password").fill(password);
    await page.keyboard.press("Enter");
    await page.waitForFunction(SETTLED);
    await page.getByRole("heading", { name: "First steps" }).waitFor();
    await page.locator(".first").getByRole("link", { name: "Share a service" }).click();
    await page.getByRole("heading", { level: 1, name: "Share a service" }).waitFor();
    await field(page, "Name of the service").fill("web");
    await inviteFor(page, "Who hosts it", "server");
    await field(page, "Where the server is").fill(`127.0.0.1:${port}`);
    await inviteFor(page, "Who may use it", "alice", "sales");
    await field(page, "Address for tunnelers").fill("web.internal:80");
    // What is made, and who gains access.
    for (const made of [
      "config web.host.v1",
      "config web.intercept.v1",
      "service web",
      "service policy web.bind",
      "service policy web.dial",
    ])
      await page.locator(".made .icon + span").getByText(made, { exact: true }).waitFor();
    for (const [right, name] of [
      ["Dial", "alice"],
      ["Bind", "server"],
    ])
      await page
        .locator(".tallies .gained")
        .filter({ hasText: right })
        .filter({ hasText: name })
        .first()
        .waitFor();
    await check(page, "a service before it is shared", true);
    const ask = await administrator(url, "admin", password);
    expect(!(await ask("GET", "/services")).length, "a preview changes nothing");
    await share(page).click();
    await page.getByRole("heading", { level: 1, name: "web: from machine to machine" }).waitFor();
    await check(page, "what to paste on the machines", true);
    const [service] = await ask("GET", "/services");
    // The lines that are shown, on both machines. The port of the user is another one, because it may be taken here.
    const listen = await freePort();
    const paste = async (name, at, runs) => {
      const [line, command, ...more] = await commands(page, name);
      expect(
        /^echo \S+ \| overkeep enroll - -o \w+\.json$/.test(line) && !more.length,
        `${name} does not get two commands: ${[line, command, ...more]}`,
      );
      expect(command === runs, `${name} runs ${command}`);
      expect(
        (await page.locator(".loopback").count()) === 1,
        `nothing warns that the token of ${name} leads to loopback`,
      );
      machines[at].once(line);
      machines[at].start(command.replace("127.0.0.1:8080", `127.0.0.1:${listen}`));
      await machine(page, name).getByText("It is enrolled.").waitFor();
    };
    await step(page, "Enroll the host").locator(".waiting").waitFor();
    await paste("server", 0, `overkeep host -i server.json web 127.0.0.1:${port}`);
    await step(page, "It is hosted").locator(".quiet").waitFor();
    await paste("alice", 1, "overkeep forward -i alice.json web 127.0.0.1:8080");
    // The first steps stay until traffic has flowed, with the commands.
    await step(page, "traffic flows").locator(".waiting").waitFor();
    await page.getByRole("link", { name: "Overview" }).click();
    await page.getByRole("heading", { name: "First steps" }).waitFor();
    await step(page, "traffic flows").locator(".waiting").waitFor();
    expect(
      (await commands(page, "alice")).join() ===
        "overkeep forward -i alice.json web 127.0.0.1:8080",
      "the first steps show the command of the user",
    );
    await check(page, "the first steps before traffic has flowed", true);
    let answer = null;
    for (const until = Date.now() + 30000; !answer && Date.now() < until; )
      answer = await answerOf(listen);
    expect(answer === "it works", `the service answers ${answer}`);
    await page.getByText("Traffic has flowed: the first steps are done.").waitFor();
    await open(page, `#/share/${service.id}`);
    await step(page, "Traffic has flowed").locator(".quiet").waitFor();
    await open(page, "#/overview");
    expect(
      !(await page.getByRole("heading", { name: "First steps" }).count()),
      "the first steps are over once traffic has flowed",
    );
  } finally {
    await page.context().close();
    for (const one of machines) one.end();
    close();
    await stop();
  }
}

/** What `overkeep` says at the controller of the test. Its status may be another than 0. */
const command = (...words) => {
  const { OVERKEEP_URL, OVERKEEP_USER, OVERKEEP_PASSWORD, ...env } = process.env;
  try {
    return execFileSync(process.env.BINARY, words, { env, encoding: "utf8" });
  } catch (error) {
    return `${error.stdout}${error.stderr}`;
  }
};
const SHOP = {
  name: "shop",
  host: ["#hosts"],
  target: "udp:[::1]:53",
  to: ["lena", "#sales"],
  address: "shop.internal:443",
};
const names = (ask) =>
  Promise.all(
    ["services", "configs", "service-policies"].map((kind) =>
      ask("GET", `/${kind}?limit=100&sort=name`).then((all) => all.map(({ name }) => name)),
    ),
  ).then((all) => all.flat().join());

/** The page and the command line make the same records, and know what exists. */
export async function sharedTwice(browser, ask) {
  const page = await signedIn(browser, 1280, "light");
  const before = await names(ask);
  const sent = []; // what changes something
  page.on(
    "request",
    (request) =>
      request.method() !== "GET" &&
      !request.url().includes("preview=true") &&
      sent.push(`${request.method()} ${request.url()}`),
  );
  await fill(page, SHOP);
  await page.locator(".made .new").nth(4).waitFor();
  await share(page).click();
  await page.getByRole("heading", { level: 1, name: "shop: from machine to machine" }).waitFor();
  expect(
    (await commands(page, "alice")).at(-1) ===
      "overkeep forward -i alice.json shop udp:127.0.0.1:8080" &&
      (await commands(page, "builds-host")).at(-1) ===
        "overkeep host -i builds-host.json shop 'udp:[::1]:53'",
    "the commands are for datagrams",
  );
  expect(
    sent.length === 1 && /^PUT .*\/network\?/.test(sent[0]),
    `a service is not made in one transaction: ${sent}`,
  );
  const words = [
    "publish",
    "shop",
    "--host",
    "#hosts",
    "--target",
    "udp:[::1]:53",
    "--to",
    "#sales",
    "--to",
    "lena",
    "--address",
    "shop.internal:443",
    "--preview",
  ];
  const said = command(...words);
  expect(
    (said.match(/^keep /gm) || []).length === 5,
    `the command line finds other records: ${said}`,
  );
  // All of it exists: nothing is made, and the commands are shown again.
  await fill(page, SHOP);
  await page.getByText("exists already and stays as it is").nth(4).waitFor();
  await share(page).click();
  await page.getByRole("heading", { level: 1, name: "shop: from machine to machine" }).waitFor();
  expect(sent.length === 1, `what exists is sent again: ${sent}`);
  await page.context().close();
  const removed = command("unpublish", "shop");
  expect(
    (await names(ask)) === before,
    `the command line does not take back what the page made: ${removed}`,
  );
}

/** A form that is refused names the field and changes nothing. */
export async function sharingRefused(browser, ask, ids) {
  const isRefusal = (answer) =>
    [400, 409, 412].includes(answer.status()) && answer.url().includes("/network?");
  const page = await signedIn(browser, 1280, "light", isRefusal);
  page.on("dialog", (question) => question.accept()); // what is filled in is left
  const before = await names(ask);
  const wrong = (label) =>
    page
      .locator(".field.wrong")
      .filter({ has: page.locator("label", { hasText: label }) })
      .locator(".error");
  const refuses = async (what, label, reason) => {
    await wrong(label).filter({ hasText: reason }).waitFor();
    await check(page, what, true);
    await share(page).click({ timeout: 5000 });
    expect((await page.locator("h1").textContent()) === "Share a service", `${what} is shared`);
    expect((await names(ask)) === before, `${what} changes something`);
  };
  await open(page, "#/share");
  await share(page).click();
  for (const label of [
    "Name of the service",
    "Who hosts it",
    "Where the server is",
    "Who may use it",
  ])
    await wrong(label).filter({ hasText: "This is required." }).waitFor();
  await page.waitForFunction(() =>
    document.activeElement.closest(".field")?.textContent.includes("Name of the service"),
  );
  await fill(page, { ...SHOP, target: "127.0.0.1" });
  await refuses("a target without a port", "Where the server is", "HOST:PORT");
  await fill(page, { ...SHOP, name: "sh\u200bop" });
  await refuses("a name with hidden characters", "Name of the service", "without width");
  await fill(page, { ...SHOP, name: "wiki" });
  await refuses(
    "a service that exists and differs",
    "Name of the service",
    'service wiki exists and differs: roleAttributes is ["intranet"], not []',
  );
  // Somebody else changes the network between the preview and the click.
  await fill(page, SHOP);
  await page.locator(".made .new").nth(4).waitFor();
  await page.route("**/overkeep/v1/network?*", async (route) => {
    if (!route.request().url().includes("preview"))
      await ask("PATCH", `/services/${ids.wiki}`, { tags: { seen: String(Date.now()) } });
    await route.continue();
  });
  await share(page).click();
  await page.getByText("Somebody else changed the network meanwhile").waitFor();
  expect((await names(ask)) === before, "what was not planned is not made");
  await page.unroute("**/overkeep/v1/network?*");
  await page.locator(".made .new").nth(4).waitFor();
  await share(page).click();
  await page.getByRole("heading", { level: 1, name: "shop: from machine to machine" }).waitFor();
  await page.context().close();
  command("unpublish", "shop");
}

/** Invites somebody: the line, the warning about its address, and who exists already. */
export async function inviting(browser, ask, ids) {
  const page = await signedIn(
    browser,
    360,
    "dark",
    (answer) => answer.status() === 400 && answer.url().includes("preview=true"),
  );
  page.on("dialog", (question) => question.accept());
  await open(page, "#/invite");
  await field(page, "Name").fill("olga's laptop");
  await who(page, "Roles").fill("engineering");
  await page.keyboard.press("Enter");
  await page.locator(".tallies .gained").filter({ hasText: "builds" }).first().waitFor();
  await check(page, "an invitation", true);
  await page.getByRole("button", { name: "Invite", exact: true }).click();
  await page.getByRole("heading", { level: 1, name: "Invite olga's laptop" }).waitFor();
  await check(page, "an invitation with its line", true);
  const [made] = await ask(
    "GET",
    `/identities?${new URLSearchParams({ filter: 'name = "olga\'s laptop"' })}`,
  );
  const line = await page.locator(".command code").textContent();
  expect(
    line === `echo ${made.enrollment.ott.jwt} | overkeep enroll - -o olga-s-laptop.json`,
    `the line is ${line}`,
  );
  await page.locator(".loopback").getByText("127.0.0.1").first().waitFor();
  // Who exists gets the same line, and keeps the roles.
  await open(page, "#/invite");
  await field(page, "Name").fill("olga's laptop");
  await who(page, "Roles").fill("sales");
  await page.keyboard.press("Enter");
  await page.getByText("It does not have #sales.").waitFor();
  await page.getByRole("button", { name: "Invite", exact: true }).click();
  await page.locator(".command code").getByText(line).waitFor();
  await enroll(made.enrollment.ott.jwt);
  await page.locator(".command").waitFor({ state: "detached" });
  await open(page, "#/invite");
  await field(page, "Name").fill("olga's laptop");
  await page.locator(".field.wrong .error").getByText("exists and has enrolled").waitFor();
  await page.getByRole("button", { name: "Invite", exact: true }).click();
  expect(
    (await page.locator("h1").textContent()) === "Invite",
    "who has enrolled is invited again",
  );
  await page.context().close();
  await ask("DELETE", `/identities/${made.id}`);
}
