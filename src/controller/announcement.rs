//! The output of a start: where the controller listens, and at the first start how to log in.
//!
//! Invariant: a generated password counts as shown only once it was printed to a terminal or is in
//! a file that is flushed to disk.

use std::{
    fs::{self, OpenOptions},
    io::{ErrorKind, IsTerminal, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use model::config::{Address, Config};

use super::running::{ADMINISTRATOR, Controller, NotStarted, Password};

/// Prints where the controller listens, and at the first start how to log in.
pub(crate) fn announce(config: &Config, controller: &Controller) -> Result<(), NotStarted> {
    let address = controller.advertised();
    let bound: Vec<String> = controller
        .all_bound()
        .iter()
        .map(ToString::to_string)
        .collect();
    print_line(&format!(
        "overkeep listens on {} and is reached at https://{address}",
        bound.join(", ")
    ));
    let Some(password) = &controller.first_password else {
        print_line(&certificate_line(controller));
        warn_of_password_files(config);
        warn_of_moves(controller);
        return Ok(());
    };
    print_line(&format!("administrator: {ADMINISTRATOR}"));
    match password {
        Password::MadeUp(password) => {
            show_password(password, &config.data).map_err(|reason| {
                NotStarted(format!(
                    "the administrator's password {reason}; the next start generates another one"
                ))
            })?;
            controller.password_was_seen()?;
        }
        Password::Given(file) => print_line(&format!(
            "password: the one in {}, which later starts do not read",
            file.display()
        )),
    }
    print_line(&format!(
        "next: open https://{address}/ in a browser, or on this host: overkeep create identity alice --enroll ott --data {} > alice.jwt",
        config.data.display()
    ));
    print_line(&certificate_line(controller));
    if config
        .advertised(controller.all_bound())
        .iter()
        .all(Address::is_loopback)
    {
        print_line(&format!(
            "advertise: {address} is reachable only from this host. Clients keep the address at which they enroll. Before the first enrollment, set \
             --advertise (or OVERKEEP_ADVERTISE) to the HOST:PORT that clients use, and --listen to an address that they reach, such as 0.0.0.0:1280."
        ));
    }
    Ok(())
}

/// The fingerprint by which a person recognizes the certificate that a browser warns of.
fn certificate_line(controller: &Controller) -> String {
    let fingerprint = controller.keystore.leaf_certificate().browser_fingerprint();
    let warning = if controller.keystore.is_external() {
        ""
    } else {
        "; browsers warn of it, and show this fingerprint with its details"
    };
    format!("certificate: SHA-256 {fingerprint}{warning}")
}

/// Logs who enrolled under an address that tokens no longer name.
fn warn_of_moves(controller: &Controller) {
    match controller.reload.former_addresses() {
        Ok(moved) => {
            for moved in moved {
                tracing::warn!("{moved}");
            }
        }
        Err(error) => tracing::warn!(%error, "cannot count who enrolled under another address"),
    }
}

/// Logs which files with the administrator's first password are left over.
fn warn_of_password_files(config: &Config) {
    let left = password_file(&config.data);
    if left.symlink_metadata().is_ok() {
        tracing::warn!(file = %left.display(), "the generated first password is still in this file; delete the file once you have it");
    }
    if let Some(file) = config
        .admin_password_file
        .as_deref()
        .filter(|file| file.exists())
    {
        tracing::info!(file = %file.display(), "admin-password-file has no effect any more: only a first start reads it");
    }
}

/// Prints a password if standard output is a terminal, otherwise writes it to a file beside the
/// data file.
fn show_password(password: &str, data: &Path) -> Result<(), String> {
    let (mut out, file) = (std::io::stdout(), password_file(data));
    if out.is_terminal() {
        return writeln!(out, "password: {password}  (shown this once)")
            .map_err(|e| format!("cannot be shown: {e}"));
    }
    keep(&file, password).map_err(|e| format!("cannot be written to {}: {e}", file.display()))?;
    print_line(&format!(
        "password: in {} (delete it once you have it)",
        file.display()
    ));
    Ok(())
}

/// Prints a line. A closed standard output is not an error.
fn print_line(line: &str) {
    drop(writeln!(std::io::stdout(), "{line}"));
}

/// The path of the data file with `.admin-password` appended.
pub(crate) fn password_file(data: &Path) -> PathBuf {
    store::beside(data, ".admin-password")
}

/// Writes a secret to a new file that only its owner can read, and flushes it. An existing file of
/// that name is removed first, because others may be able to read it, or it may be a link.
fn keep(file: &Path, secret: &str) -> std::io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut out = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)?;
    writeln!(out, "{secret}")?;
    out.sync_all()?;
    store::sync_directory(file)
}
