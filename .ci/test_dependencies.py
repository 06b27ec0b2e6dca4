"""What `dependencies.py` is to notice."""

import datetime
import pathlib
import tempfile
import tomllib
import unittest

import dependencies

LISTED = tomllib.loads((pathlib.Path(__file__).parent / "known-advisories.toml").read_text())
KNOWN = LISTED["advisory"]


def used(*packages):
    return [{"name": name, "version": version} for name, version in packages]


class Advisories(unittest.TestCase):
    def test_a_crate_with_a_known_defect_is_a_problem(self):
        self.assertEqual(
            list(dependencies.answered(used(("h2", "0.3.27")), [], KNOWN)),
            ["h2 0.3.27: RUSTSEC-2026-0258 is not accepted in advisories.toml"],
        )

    def test_a_crate_with_the_cure_is_none(self):
        self.assertEqual(list(dependencies.answered(used(("h2", "0.4.20"), ("tokio", "1.38.2"), ("time", "0.3.5")), [], KNOWN)), [])

    def test_of_two_versions_of_a_crate_each_is_looked_at(self):
        found = dependencies.concerned(used(("h2", "0.4.20"), ("h2", "0.4.15")), KNOWN)
        self.assertEqual(found, [("RUSTSEC-2026-0258", "h2", "0.4.15")])

    def test_what_is_accepted_says_why_and_is_for_one_version(self):
        entry = {"id": "RUSTSEC-2026-0258", "package": "h2", "version": "0.3.27", "reason": "because", "exit": "until"}
        problems = lambda version, **change: list(dependencies.answered(used(("h2", version)), [{**entry, **change}], KNOWN))
        self.assertEqual(problems("0.3.27"), [])
        self.assertEqual(len(problems("0.3.26")), 2)
        self.assertEqual(len(problems("0.3.27", reason=" ")), 1)
        self.assertEqual(len(problems("0.3.27", exit="")), 1)
        self.assertEqual(len(problems("0.3.27", id="RUSTSEC-2024-0332")), 1)

    def test_an_old_list_is_a_warning(self):
        days = lambda number: LISTED["checked"] + datetime.timedelta(days=number)
        self.assertEqual(dependencies.stale(LISTED, days(LISTED["lasts"])), [])
        self.assertEqual(len(dependencies.stale(LISTED, days(LISTED["lasts"] + 1))), 1)

    def test_every_known_advisory_says_what_it_is_about(self):
        for advisory in KNOWN:
            title = advisory.get("title", "").strip()
            self.assertTrue(title and "see the advisory" not in title, advisory["id"])

    def test_requirements_are_read_as_cargo_reads_them(self):
        for version, requirement, met in [
            ("0.3.26", "^0.3.26", True), ("0.3.25", "^0.3.26", False), ("0.4.0", "^0.3.26", False), ("0.0.4", "^0.0.3", False),
            ("1.9.0", "^1.2", True), ("2.0.0", "^1.2", False), ("0.11.7", ">=0.11.6, <0.12.0", True), ("0.12.0", ">=0.11.6, <0.12.0", False),
            ("1.0.0-rc.1", ">=1.0.0", True), ("1.2.3", "=1.2.3", True), ("1.10.0", ">1.9", True), ("1.2.3", "1.2.0", True),
        ]:
            self.assertEqual(dependencies.meets(version, requirement), met, (version, requirement))

    def test_a_copy_of_the_database_is_read(self):
        front = '```toml\n[advisory]\nid = "RUSTSEC-2030-0001"\npackage = "a-crate"\n%s[versions]\npatched = [">=2"]\n```\n# A title\n'
        with tempfile.TemporaryDirectory() as directory:
            crate = pathlib.Path(directory, "crates", "a-crate")
            crate.mkdir(parents=True)
            crate.joinpath("RUSTSEC-2030-0001.md").write_text(front % "")
            crate.joinpath("RUSTSEC-2030-0002.md").write_text(front % "withdrawn = 2030-01-02\n")
            known = list(dependencies.database(directory))
        self.assertEqual(dependencies.concerned(used(("a-crate", "1.9.9"), ("a-crate", "2.0.0")), known), [("RUSTSEC-2030-0001", "a-crate", "1.9.9")])


if __name__ == "__main__":
    unittest.main()
