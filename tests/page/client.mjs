// A client or a router that enrolls with a token, and a log-in with its certificate.

import { execFileSync } from "node:child_process";
import { createHmac } from "node:crypto";
import fs from "node:fs";
import { request } from "node:https";
import os from "node:os";
import path from "node:path";
import { expect, origin } from "./browser.mjs";

/** A new key and a request for a certificate with this name. */
function requested(name) {
  const work = fs.mkdtempSync(path.join(os.tmpdir(), "page-"));
  const [key, csr] = ["key", "csr"].map((file) => path.join(work, file));
  execFileSync(
    "openssl",
    [
      "req",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:P-256",
      "-nodes",
      "-subj",
      `/CN=${name}`,
      "-keyout",
      key,
      "-out",
      csr,
    ],
    { stdio: "ignore" },
  );
  const made = { key: fs.readFileSync(key, "utf8"), csr: fs.readFileSync(csr, "utf8") };
  fs.rmSync(work, { recursive: true });
  return made;
}

const claims = (jwt) => JSON.parse(Buffer.from(jwt.split(".")[1], "base64url"));

async function redeem(jwt, type, body) {
  const { em: method, jti, iss: controller } = claims(jwt);
  const answer = await fetch(`${controller}/edge/client/v1/enroll?method=${method}&token=${jti}`, {
    method: "POST",
    headers: { "content-type": type, accept: "application/json" },
    body,
  });
  expect(answer.ok, `the enrollment with ${method} answered ${answer.status}`);
  return (await answer.json()).data;
}

/** Enrolls a client with a token. Returns its key and certificate. */
export async function enroll(jwt) {
  const { key, csr } = requested("client");
  const { cert } = await redeem(jwt, "application/x-pem-file", csr);
  return { key, cert };
}

/** Enrolls a router with a token. */
export async function enrollRouter(jwt) {
  const { csr } = requested(claims(jwt).sub);
  await redeem(jwt, "application/json", JSON.stringify({ certCsr: csr, serverCertCsr: csr }));
}

/** The status of a log-in with a certificate. */
export const logInWith = (made, controller = origin) =>
  new Promise((done, failed) => {
    const sent = request(
      `${controller}/edge/client/v1/authenticate?method=cert`,
      {
        ...made,
        method: "POST",
        rejectUnauthorized: false,
        headers: { "content-type": "application/json" },
      },
      (answer) => {
        answer.resume();
        done(answer.statusCode);
      },
    );
    sent.on("error", failed).end("{}");
  });

/** The one-time code of a secret, as an authenticator app shows it. */
export const code = (secret, at = Date.now()) => {
  const bits = [...secret.replace(/=/g, "")]
    .map((letter) =>
      "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".indexOf(letter).toString(2).padStart(5, "0"),
    )
    .join("");
  const key = Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(at / 30000)));
  const digest = createHmac("sha1", key).update(counter).digest();
  return String((digest.readUInt32BE(digest.at(-1) & 15) & 0x7fffffff) % 1000000).padStart(6, "0");
};
