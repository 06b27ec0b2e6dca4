"""Tests which checks a change asks for."""
import pathlib
import unittest

import quick
from quick import Package, plan

ALONE = [Package("overkeep", "")]
WORKSPACE = [
    Package("overkeep", "", {"overkeep-model", "overkeep-store"}),
    Package("overkeep-wire", "crates/wire"),
    Package("overkeep-model", "crates/model", {"overkeep-query"}),
    Package("overkeep-query", "crates/query"),
    Package("overkeep-store", "crates/store", {"overkeep-model"}),
    Package("overkeep-store-file", "crates/store/file", set()),
]


class Changes(unittest.TestCase):
    def test_a_leaf_is_checked_with_its_direct_dependents(self):
        chosen = plan(["crates/query/src/token.rs"], WORKSPACE)
        self.assertEqual(chosen.packages, ["overkeep-model", "overkeep-query"])
        self.assertFalse(chosen.root)
        self.assertEqual(chosen.filters, [])

    def test_the_program_is_a_dependent(self):
        chosen = plan(["crates/model/tests/kinds.rs"], WORKSPACE)
        self.assertEqual(chosen.packages, ["overkeep-model", "overkeep-store"])
        self.assertTrue(chosen.root)
        self.assertEqual(chosen.filters, [])

    def test_the_program_tests_a_crate_too(self):
        chosen = plan(["crates/model/src/entity/kinds/mfa.rs", "crates/model/src/schema.rs"], WORKSPACE)
        self.assertEqual((chosen.packages, chosen.root), (["overkeep-model", "overkeep-store"], True))
        self.assertEqual(chosen.filters, ["contract::", "crud::", "kinds::", "upgrades::"])
        chosen = plan(["crates/policy/src/posture/session_review.rs", "crates/policy/src/access/rights.rs"], ALONE)
        self.assertEqual(chosen.filters, ["access::", "access_changes::", "posture::", "posture_restarts::"])
        self.assertEqual(plan(["crates/fabric/src/peer_lines.rs"], ALONE).filters, ["control::", "router::"])
        self.assertEqual(plan(["crates/listener/src/sockets.rs"], ALONE).filters, ["hostile::", "request_framing::"])

    def test_a_crate_that_nobody_uses_is_alone(self):
        chosen = plan(["crates/wire/Cargo.toml"], WORKSPACE)
        self.assertEqual((chosen.packages, chosen.root), (["overkeep-wire"], False))

    def test_the_innermost_package_owns_a_file(self):
        self.assertEqual(plan(["crates/store/file/src/lib.rs"], WORKSPACE).packages, ["overkeep-store-file"])
        self.assertEqual(plan(["crates/wires/README.md"], WORKSPACE).packages, [])

    def test_names_of_folders_are_compared_whole(self):
        both = [Package("overkeep", ""), Package("a", "crates/a"), Package("ab", "crates/ab")]
        self.assertEqual(plan(["crates/ab/src/lib.rs"], both).packages, ["ab"])

    def test_versions_concern_every_crate(self):
        for file in ("Cargo.lock", "Cargo.toml", "rust-toolchain.toml"):
            chosen = plan([file], WORKSPACE)
            self.assertEqual(len(chosen.packages), len(WORKSPACE) - 1)
            self.assertTrue(chosen.root)

    def test_sources_of_the_program_choose_tests(self):
        chosen = plan(["src/controller/reload.rs", "src/admin_socket/mod.rs"], ALONE)
        self.assertTrue(chosen.root)
        self.assertEqual(chosen.filters, ["admin_socket::", "command_line::", "controller::", "reload::", "short_commands::", "start::"])
        self.assertEqual(plan(["src/lib.rs"], ALONE).filters, [])

    def test_a_test_chooses_itself(self):
        chosen = plan(["tests/promises/control/links.rs", "tests/promises/store/mod.rs", "tests/promises/harness/wire.rs"], ALONE)
        self.assertEqual((chosen.root, chosen.filters), (False, ["control::links::", "store::"]))

    def test_documents_are_read_by_tests(self):
        self.assertEqual(plan(["docs/routers.md"], ALONE).filters, ["architecture::", "documentation::"])
        chosen = plan([".ci/quick.py", "crates/rest/src/page/assets/list.js", "crates/rest/src/page/assets/vendor/htm.js"], ALONE)
        self.assertEqual((chosen.is_ci, chosen.scripts), (True, ["crates/rest/src/page/assets/list.js"]))

    def test_checks_that_end_soon_come_first(self):
        names = [name for name, _ in quick.commands(plan(["crates/model/src/lib.rs", "src/cli/mod.rs", "tests/page/walk.mjs"], WORKSPACE))]
        self.assertEqual(names[-5:], ["clippy of crates", "tests of crates", "clippy", "tests beside the code", "integration tests"])
        self.assertEqual(names[0], "format")

    def test_the_gate_uses_the_same_prettier(self):
        self.assertIn(quick.PRETTIER, pathlib.Path(__file__).with_name("run").read_text())

    def test_chosen_tests_exist(self):
        """The modules that the tables name are there; a renamed one is noticed."""
        tests = quick.ROOT / "tests" / "promises"
        named = {name for names in (*quick.TESTED_BY.values(), *quick.READ_BY.values()) for name in names}
        for name in named:
            path = tests / name.replace("::", "/")
            self.assertTrue(path.is_dir() or path.with_suffix(".rs").exists(), name)


if __name__ == "__main__":
    unittest.main()
