// Reads the expiry and the common name of certificates from their DER (X.509, RFC 5280).

const [SEQUENCE, SET, UTC, GENERALIZED, OID] = [0x30, 0x31, 0x17, 0x18, 0x06];
const COMMON_NAME = '85,4,3';

function* elements(bytes, from, to) {
  let at = from;
  while (at + 2 <= to) {
    const tag = bytes[at];
    let length = bytes[at + 1];
    let start = at + 2;
    if (length & 0x80) {
      const count = length & 0x7f;
      if (count > 4 || start + count > to) return;
      length = 0;
      for (let index = 0; index < count; index++) length = length * 256 + bytes[start + index];
      start += count;
    }
    if (start + length > to) return;
    yield { tag, start, end: start + length };
    at = start + length;
  }
}

function time(bytes, { tag, start, end }) {
  const text = String.fromCharCode(...bytes.slice(start, end));
  const whole = tag === UTC ? (Number(text.slice(0, 2)) < 50 ? '20' : '19') + text : text;
  const [, year, month, day, hour, minute, second] = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)/.exec(whole) || [];
  return year ? new Date(Date.UTC(year, month - 1, day, hour, minute, second)) : null;
}

function commonName(bytes, name) {
  for (const set of elements(bytes, name.start, name.end)) {
    if (set.tag !== SET) continue;
    for (const pair of elements(bytes, set.start, set.end)) {
      const [oid, value] = [...elements(bytes, pair.start, pair.end)];
      if (oid?.tag === OID && [...bytes.slice(oid.start, oid.end)].join() === COMMON_NAME && value) return new TextDecoder().decode(bytes.slice(value.start, value.end));
    }
  }
  return '';
}

/** The certificates in a structure: `{ name, ends }`. */
export function certificatesIn(bytes, from = 0, to = bytes.length, depth = 0) {
  const found = [];
  if (depth > 9) return found;
  const parts = [...elements(bytes, from, to)];
  parts.forEach((part, index) => {
    if (!(part.tag & 0x20)) return;
    const inner = part.tag === SEQUENCE ? [...elements(bytes, part.start, part.end)] : [];
    if (inner.length === 2 && inner.every(({ tag }) => tag === UTC || tag === GENERALIZED)) {
      found.push({ name: parts[index + 1] ? commonName(bytes, parts[index + 1]) : '', ends: time(bytes, inner[1]) });
    } else found.push(...certificatesIn(bytes, part.start, part.end, depth + 1));
  });
  return found;
}

/** Base64 text, with or without the lines of PEM, as bytes. */
export const bytesOf = text => Uint8Array.from(atob(text.replace(/-----[^-]+-----|\s/g, '')), letter => letter.charCodeAt(0));

/** The first certificate of a PEM text, or null. */
export function certificateOf(pem) {
  try {
    const [first] = pem.split('-----END CERTIFICATE-----');
    return certificatesIn(bytesOf(first))[0] || null;
  } catch {
    return null;
  }
}
