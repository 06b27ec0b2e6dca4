// From a new record to its enrolled client.

import fs from "node:fs";
import { createRequire } from "node:module";
import { check, expect, open, signedIn } from "../browser.mjs";
import { enroll, enrollRouter, logInWith } from "../client.mjs";

export * from "./first_start.mjs";

const decode = createRequire(import.meta.url)("jsqr");

/** The text of the QR code on the screen, read from its pixels. */
async function scanned(browser, page) {
  const picture = (await page.locator(".qr").screenshot()).toString("base64");
  const blank = await browser.newPage(); // without a policy that forbids pictures
  const { reds, width, height } = await blank.evaluate(async (data) => {
    const bitmap = await createImageBitmap(
      await (await fetch(`data:image/png;base64,${data}`)).blob(),
    );
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
    canvas.drawImage(bitmap, 0, 0);
    return {
      reds: [
        ...canvas
          .getImageData(0, 0, bitmap.width, bitmap.height)
          .data.filter((_, index) => index % 4 === 0),
      ],
      width: bitmap.width,
      height: bitmap.height,
    };
  }, picture);
  await blank.close();
  return decode(Uint8ClampedArray.from(reds.flatMap((red) => [red, red, red, 255])), width, height)
    ?.data;
}

/** From a new identity to its client that has logged in, on one page without a reload. */
export async function enrollment(browser) {
  const page = await signedIn(browser, 1280, "light");
  await open(page, "#/identities/_new");
  await page.getByLabel("Name").fill("new-laptop");
  await page.locator(".preview .quiet, .preview .tallies").waitFor();
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByText("Waiting for the client").waitFor();
  expect((await page.locator(".qr path").count()) === 1, "the token is shown as a QR code");
  const shown = await page.locator(".enrollment pre").textContent();
  expect((await scanned(browser, page)) === shown, "the QR code on the screen holds the token");
  const download = page.waitForEvent("download");
  await page.getByRole("link", { name: "Download" }).click();
  expect(
    fs.readFileSync(await (await download).path(), "utf8") === shown,
    "the token that is downloaded is the one that is shown",
  );
  const made = await enroll(shown);
  await page.getByText("The client is enrolled").waitFor();
  await page.getByText("Waiting for the client to log in").waitFor();
  expect((await logInWith(made)) === 200, "the client logs in");
  await page.getByText("It is logged in", { exact: true }).waitFor();
  await page.context().close();
}

/** An invitation, with the keyboard: a name, a token, and what the client does with it. */
export async function invitation(browser) {
  const page = await signedIn(browser, 360, "dark");
  await open(page, "#/invite");
  await check(page, "an invitation", true);
  await page.getByLabel("Name").first().focus();
  await page.keyboard.type("first-laptop");
  await page.keyboard.press("Enter");
  await page.locator(".qr path").waitFor();
  const step = (number) => page.locator(".steps li").nth(number);
  await step(1).locator(".waiting").waitFor();
  expect(
    (await scanned(browser, page)) === (await page.locator(".enrollment pre").textContent()),
    "the QR code in a dark, narrow window holds the token",
  );
  await check(page, "an invitation with a token", true);
  const made = await enroll(await page.locator(".enrollment pre").textContent());
  await step(1).locator(".quiet").waitFor();
  await step(2).locator(".waiting").waitFor();
  expect((await logInWith(made)) === 200, "the client logs in");
  await step(2).locator(".quiet").waitFor();
  await page.context().close();
}

/** The token of a remote router and its configuration, until the router is enrolled. */
export async function routerEnrollment(browser, ask, ids) {
  const page = await signedIn(browser, 1280, "light");
  await open(page, `#/edge-routers/${ids["branch-office"]}`);
  await page.getByText("Waiting for the router").waitFor();
  const token = await page.locator(".enrollment pre").textContent();
  await page.getByRole("button", { name: "Show the configuration" }).click();
  await page.locator("pre").filter({ hasText: '"branch-office:3022"' }).waitFor();
  await check(page, "a router that waits for its enrollment", true);
  await enrollRouter(token);
  await page.getByText("The router is enrolled").waitFor();
  await page.getByText("Waiting for the router to connect").waitFor();
  await page.context().close();
}
