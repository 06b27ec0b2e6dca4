"""What the image of a release holds."""

import pathlib
import tempfile
import unittest

import image

CONTAINERFILE = (pathlib.Path(__file__).parent.parent / "examples/packaging/Containerfile").read_text()


class Images(unittest.TestCase):
    def written(self, change=lambda files: files):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        path = pathlib.Path(self.folder.name) / "image.tar"
        files = image.image(CONTAINERFILE, "1.2.3", {"x86_64": b"one", "aarch64": b"other"})
        image.write(change(files), path)
        return path

    def test_each_machine_has_its_program(self):
        path = self.written()
        for machine, architecture, content in [("x86_64", "amd64", b"one"), ("aarch64", "arm64", b"other")]:
            program, config = image.extract(path, machine)
            self.assertEqual((program, config["architecture"]), (content, architecture))

    def test_the_image_is_what_the_containerfile_says(self):
        _, described = image.extract(self.written(), "x86_64")
        config = described["config"]
        self.assertEqual((config["User"], config["WorkingDir"]), ("65532:65532", "/data"))
        self.assertEqual((config["Entrypoint"], config["Cmd"]), (["/overkeep"], ["run"]))
        self.assertEqual((config["Volumes"], config["ExposedPorts"]), ({"/data": {}}, {"1280/tcp": {}}))
        self.assertIn("OVERKEEP_LISTEN=0.0.0.0:1280", config["Env"])

    def test_a_changed_byte_is_noticed(self):
        def change(files):
            name = next(name for name in files if name.startswith("blobs/"))
            return {**files, name: files[name][:-1] + b"?"}

        path = self.written(change)
        with self.assertRaises(ValueError):
            [image.extract(path, machine) for machine in image.ARCHITECTURES]

    def test_equal_programs_give_equal_archives(self):
        self.assertEqual(self.written().read_bytes(), self.written().read_bytes())

    def test_unknown_instructions_are_refused(self):
        for line in ("RUN true", "FROM debian", "COPY other /other"):
            with self.assertRaises(ValueError):
                image.configured(f"FROM scratch\n{line}\n")


if __name__ == "__main__":
    unittest.main()
