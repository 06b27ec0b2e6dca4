//! Keys, requests and certificates from the `openssl` program.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use pki::{Certificate, Material};

pub const P256: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
pub const P384: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"];
pub const RSA: &[&str] = &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];
pub const ED25519: &[&str] = &["-algorithm", "ED25519"];

/// A directory in which `openssl` runs.
pub struct OpensslDirectory(pub tempfile::TempDir);

impl OpensslDirectory {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn put(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.0.path().join(name).display().to_string();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn try_openssl(&self, args: &[&str], input: &[u8]) -> Result<String, String> {
        let mut command = Command::new("openssl");
        command
            .args(args)
            .current_dir(self.0.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).ok();
        let done = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if done.status.success() {
            Ok(text(&done.stdout))
        } else {
            Err(text(&done.stderr))
        }
    }

    pub fn openssl(&self, args: &[&str], input: impl AsRef<[u8]>) -> String {
        self.try_openssl(args, input.as_ref())
            .unwrap_or_else(|error| panic!("openssl {args:?}: {error}"))
    }

    /// Generates a key. Returns the path of its PEM file.
    pub fn key(&self, name: &str, kind: &[&str]) -> String {
        self.put(name, self.openssl(&[&["genpkey"], kind].concat(), ""))
    }

    pub fn csr(&self, key: &str, subject: &str, more: &[&str]) -> String {
        self.openssl(
            &[
                &["req", "-new", "-utf8", "-key", key, "-subj", subject],
                more,
            ]
            .concat(),
            "",
        )
    }

    /// A certificate without extensions, which openssl issues as version 1.
    pub fn version_1(&self, csr: &str, ca: &Material) -> Certificate {
        let (cert, key) = (
            self.put("v1-ca.pem", &ca.intermediate.certificate),
            self.put("v1-ca.key", &ca.intermediate.key),
        );
        let made = self.openssl(
            &[
                "x509",
                "-req",
                "-days",
                "2",
                "-CA",
                &cert,
                "-CAkey",
                &key,
                "-set_serial",
                "7",
            ],
            csr,
        );
        assert!(
            self.openssl(&["x509", "-noout", "-text"], &made)
                .contains("Version: 1")
        );
        Certificate::only(&made).unwrap()
    }

    pub fn verifies(&self, leaf: &Certificate, material: &Material, purpose: &str) -> bool {
        let (root, between) = (
            self.put("root.pem", &material.root.certificate),
            self.put("between.pem", &material.intermediate.certificate),
        );
        let leaf = self.put("leaf.pem", leaf.pem());
        let args = [
            "verify",
            "-x509_strict",
            "-CAfile",
            &root,
            "-untrusted",
            &between,
            "-purpose",
            purpose,
            &leaf,
        ];
        self.try_openssl(&args, b"").is_ok()
    }

    pub fn shows(&self, certificate: &Certificate, args: &[&str]) -> String {
        self.openssl(&[&["x509", "-noout"], args].concat(), certificate.pem())
            .trim()
            .to_owned()
    }

    /// The text of one extension; empty if it is absent.
    pub fn extension(&self, certificate: &Certificate, name: &str) -> String {
        let text = self
            .try_openssl(
                &["x509", "-noout", "-ext", name],
                certificate.pem().as_bytes(),
            )
            .unwrap_or_default();
        text.lines()
            .skip(1)
            .map(str::trim)
            .collect::<Vec<_>>()
            .join(" ")
    }
}
