// Maintenance of the data file and its snapshots.

import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { check, expect, open, origin, signedIn } from "../browser.mjs";
import { administrator } from "../seed.mjs";

/** Faults of the data file are shown, and repaired once the person agrees. */
export async function repair(browser) {
  const page = await signedIn(browser, 360, "light");
  const state = {
    inProgress: false,
    startTime: "2026-01-01T00:00:00Z",
    endTime: "2026-01-01T00:00:01Z",
    rowsChecked: 9,
    rowsTotal: 9,
    error: "",
    results: [{ description: "an index has no row for alice", fixed: false }],
  };
  let asked = 0;
  // The file has no fault: the first answers are made up until the repair is asked for, and the controller does the rest.
  await page.route("**/database/data-integrity-results", (route) =>
    asked ? route.continue() : route.fulfill({ json: { data: state, meta: {} } }),
  );
  page.on("request", (request) => {
    asked +=
      request.method() === "POST" && request.url().endsWith("/database/fix-data-integrity") ? 1 : 0;
  });
  await open(page, "#/care");
  await page.getByText("1 fault", { exact: true }).waitFor();
  await page.getByText("an index has no row for alice").waitFor();
  await page.getByRole("button", { name: "Repair the data file" }).click();
  await check(page, "the repair of the data file", true);
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  expect(!asked, "a repair that is cancelled is not asked for");
  await page.getByRole("button", { name: "Repair the data file" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Repair the data file" }).click();
  await page.getByText("No faults found,").waitFor();
  expect(asked === 1, `the repair was asked for ${asked} times`);
  await page.context().close();
}

/** The versions are those of the controller, and the program knows each command for the case that nobody can log in. */
async function versionsAndCommands(page, ask) {
  const answered = await ask("GET", "/version");
  const version = { ...answered, version: answered.apiVersions.overkeep.v1.version };
  const card = (name) =>
    page.locator("section.card").filter({ has: page.getByRole("heading", { name, exact: true }) });
  const shown = await card("Version").innerText();
  for (const member of ["version", "revision", "runtimeVersion"])
    expect(
      version[member] && shown.includes(version[member]),
      `the versions lack ${version[member]}: ${shown}`,
    );
  const commands = await card("If nobody can log in").locator("li > code").allTextContents();
  expect(
    ["admin list", "admin link", "admin reset-password", "check", "restore"].every((name) =>
      commands.some((command) => command.startsWith(`overkeep ${name}`)),
    ),
    `the commands are ${commands}`,
  );
  for (const command of commands)
    execFileSync(process.env.BINARY, [
      ...command
        .split(" ")
        .slice(1)
        .filter((word) => word !== "--help"),
      "--help",
    ]);
}

/** The session of somebody else is ended from the list. */
async function endSession(page, ask) {
  const { id } = await ask("POST", "/identities", {
    name: "leaving-admin",
    type: "Default",
    isAdmin: true,
  });
  await ask("POST", "/authenticators", {
    identityId: id,
    method: "updb",
    username: "leaving-admin",
    password: "correct horse battery",
  });
  const theirs = await administrator(origin, "leaving-admin", "correct horse battery");
  const name = "End the session of leaving-admin?";
  await page.getByRole("button", { name }).click();
  await page
    .getByRole("dialog", { name })
    .getByRole("button", { name: "End", exact: true })
    .click();
  await page.getByRole("button", { name }).waitFor({ state: "detached" });
  expect(
    await theirs("GET", "/current-identity").then(
      () => false,
      (error) => /answered 401/.test(error.message),
    ),
    "a session that was ended is refused",
  );
  await ask("DELETE", `/identities/${id}`);
}

/** Maintenance: a check of the data file, a snapshot that is proven and restored aside, and an event shown as it happens. */
export async function care(browser, ask) {
  const page = await signedIn(browser, 1280, "light");
  await open(page, "#/care");
  await page.getByText("Overkeep Root").waitFor();
  await page.locator(".findings").getByText("none are scheduled").waitFor();
  await page.getByRole("button", { name: "Check the network" }).click();
  await page
    .locator(".findings")
    .getByText("advertised address")
    .first()
    .waitFor({ state: "attached" });
  await page.getByRole("button", { name: "Check the data file" }).click();
  await page.getByText("No faults found,").waitFor();
  await page.getByRole("button", { name: "Take a snapshot" }).click();
  await page.getByText("Written to").waitFor();
  for (const name of ["Prove", "Restore drill"]) {
    await page.getByRole("button", { name }).first().click();
    await page
      .locator(".trial h3")
      .filter({ hasText: name === "Prove" ? "Proof of" : "Restore drill of" })
      .waitFor();
    await page.locator(".trial").getByText("The snapshot is good.").waitFor();
  }
  await page.locator(".trial").getByText("log-in: done").waitFor();
  expect(
    fs
      .readdirSync(path.dirname(process.env.OVERKEEP_DATA))
      .every((name) => !name.startsWith("overkeep-drill")),
    "the drill leaves its copy",
  );
  await check(page, "a snapshot that was tried", true);
  await versionsAndCommands(page, ask);
  await endSession(page, ask);
  await open(page, "#/live");
  await page.waitForFunction(() => document.querySelector(".pulse.on"));
  await ask("POST", "/identities", { name: "seen-live", type: "Default", isAdmin: false });
  await page
    .getByRole("log")
    .locator("li.of-create")
    .filter({ hasText: "seen-live" })
    .first()
    .waitFor();
  await page.context().close();
}
