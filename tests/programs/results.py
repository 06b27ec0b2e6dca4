"""What the commands of an operator print, without what differs from run to run, and its comparison with a recording.

A recording is made from the controller that the program itself contains: `programs.py --record FILE ziti-1.1.15`. It holds, for each command, a
table as rows by column, JSON as members with their values, a rejection as its first line and code, and other output as lines. Ids, times,
addresses, paths and secrets are masked; of members that hold them the type is compared. A member that is blank is the same as one that is missing,
and further members are allowed, because later versions of the interface have more.
"""
import collections
import gzip
import json
import re

MASKS = [
    (re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+"), "TOKEN"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\b[0-9a-fA-F]{40,}\b"), "FINGERPRINT"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\w.:+ -]*?(?=[\s\"│]|$)"), "TIME"),
    (re.compile(r"(?:https://)?(?:127\.0\.0\.1|localhost):\d{4,5}"), "ADDRESS"),
    (re.compile(r"(with id:? |id: )\S+"), r"\1ID"),
    (re.compile(r"\b\d+(\.\d+)?(ms|µs|s)\b"), "DURATION"),
    (re.compile(r"\b[0-9a-f]{4}\.\.\.[0-9a-f]{2}\b"), "FINGERPRINT"),
]
# Members that differ from run to run. Of these only the type is compared.
VOLATILE = re.compile(r"^(id|.*Id|.*At|_links|token|jwt|certPem|fingerprint|verificationToken|hostname|.*Link|ipAddress|cachedLastActivityAt|version.*)$")

# Built-in config types that later controllers have, too. They are left out of lists.
LATER_CONFIG_TYPES = {"interfaces.v1", "l2.host.v1", "l2.intercept.v1", "proxy.v1"}


def without_later_config_types(whole):
    """A list of records without the later config types."""
    data = [one for one in whole["data"] if one.get("name") not in LATER_CONFIG_TYPES]
    pagination = whole.get("meta", {}).get("pagination")
    if pagination and len(data) < len(whole["data"]):
        whole["meta"] = {"pagination": {**pagination, "totalCount": pagination["totalCount"] - len(whole["data"]) + len(data)}}
    return {**whole, "data": data}


def ids(data, into):
    """Enters the ids of all records in an answer."""
    if isinstance(data, dict):
        one = data.get("id")
        # Shorter ones, and those that are words, are the same everywhere.
        if isinstance(one, str) and len(one) > 8 and one != data.get("name"):
            into.add(one)
        for part in data.values():
            ids(part, into)
    elif isinstance(data, list):
        for part in data:
            ids(part, into)


class Results:
    """The masked results of commands, by command."""

    def __init__(self, work, controller, word):
        self.work, self.controller, self.word, self.said, self.ids = str(work), controller, word, [], set()
        asked = controller.ask

        def ask(*line, **how):
            answer = asked(*line, **how)
            ids(answer, self.ids)
            return answer
        controller.ask = ask

    def add(self, line, status, output): self.said.append((line, status, output))

    def masked(self, text):
        for one in sorted(self.ids, key=len, reverse=True):
            text = text.replace(one, "ID")
        text = text.replace(self.work, "WORK").replace(self.controller.password, "PASSWORD").replace(self.word, "PASSWORD")
        for mask, word in MASKS:
            text = mask.sub(word, text)
        return text

    def table(self, output):
        rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in output.splitlines() if line.startswith("│") and "─" not in line]
        head = rows[0]
        shown = [dict(zip(head, (re.sub(r"\s+", " ", self.masked(cell)) for cell in row))) for row in rows[1:]]
        shown = [row for row in shown if row.get("NAME") not in LATER_CONFIG_TYPES]
        for row in shown:
            row.update({name: "ID" for name in row if name == "ID" and row[name]})
        if any(not row.get("ID", "ID") for row in shown):
            # Cells of several lines, in any order.
            return {name: sorted({row.get(name, "") for row in shown}) for name in head}
        return {"columns": head, "rows": [json.loads(row) for row in sorted({json.dumps(row, sort_keys=True) for row in shown})]}

    def shape(self, value, name=""):
        if VOLATILE.match(name):
            return type(value).__name__
        if isinstance(value, dict):
            return {key: self.shape(part, key) for key, part in sorted(value.items()) if not (key == "description" and isinstance(part, str))}
        if isinstance(value, list):
            name_of = lambda part: (part.get("name") or "") if isinstance(part, dict) else ""
            return sorted((self.shape(part) for part in value), key=lambda part: (name_of(part), json.dumps(part, sort_keys=True)))
        return self.masked(value) if isinstance(value, str) else value

    def result(self, status, output):
        if status:
            code = re.search(r'"code": "(\w+)"', output.split('"cause"')[0]) or re.search(r'"code": "([A-Z_]+)"', output)
            return [self.masked(line) for line in output.strip().splitlines()[:1]] + ([code[1]] if code else [])
        if output.lstrip().startswith("{"):
            whole = json.loads(output)
            if isinstance(whole.get("meta"), dict):
                whole["meta"] = {"pagination": whole["meta"].get("pagination")}
            return self.shape(without_later_config_types(whole) if isinstance(whole.get("data"), list) else whole)
        if any(line.startswith("│") for line in output.splitlines()):
            return self.table(output)
        return [self.masked(re.sub(r"\s+", " ", line).strip()) for line in output.splitlines() if line.strip()]

    def all(self):
        """The results by command; a command that runs again has a number."""
        count, found = collections.Counter(), {}
        for line, status, output in self.said:
            name = self.masked(" ".join(map(str, line)))
            count[name] += 1
            found[f"{name} #{count[name]}" if count[name] > 1 else name] = {"status": status, "result": self.result(status, output)}
        return found


def write(path, results):
    with open(path, "wb") as file:
        file.write(gzip.compress(json.dumps(results, indent=0, sort_keys=True).encode(), mtime=0))


def read(path):
    with gzip.open(path) as file:
        return json.load(file)


def is_blank(value):
    return all(map(is_blank, value.values())) if isinstance(value, dict) else value in (None, "", 0, False, [], "NoneType")


def differences(recorded, found, where=""):
    """The places at which two results differ, each as a line."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        for name in sorted(recorded.keys() | found.keys()):
            at = f"{where}.{name}" if where else name
            if name not in found and is_blank(recorded[name]) or name not in recorded and where:
                continue
            if name not in found:
                yield f"{at} is missing, recorded is {json.dumps(recorded[name])[:200]}"
            elif name not in recorded:
                yield f"{at} is {json.dumps(found[name])[:200]} and not in the recording"
            else:
                yield from differences(recorded[name], found[name], at)
    elif isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        for number, (one, other) in enumerate(zip(recorded, found)):
            yield from differences(one, other, f"{where}[{number}]")
    elif recorded != found and not (is_blank(recorded) and is_blank(found)):
        yield f"{where} is {json.dumps(found)[:300]}, recorded is {json.dumps(recorded)[:300]}"
