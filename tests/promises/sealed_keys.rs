//! Keys sealed with a passphrase: a copy of the file does not reveal them, and nothing that happens
//! while they are sealed loses them.

use std::{fs, os::unix::fs::PermissionsExt, process::Stdio, thread, time::Instant};

use policy::change::{self, KINDS, SealedKeys, certificates};
use store::Store;

use pki::Passphrase;
use redb::ReadableTable;

use crate::{
    backup::DataFile,
    harness::{Caller, stores, trusting},
    integrity::rows,
};

const PASSPHRASE: &str = "correct horse battery staple";
const ANOTHER: &str = "Tr0ub4dor&3 and his friends";
const SEALED: &str =
    "the keys in the data file are sealed; set passphrase-file to the file with their passphrase";
const WRONG: &str = "the passphrase is not the one that sealed the keys in the data file";
const NOT_CHECKED: &str = "not checked";

/// Adds files with two passphrases.
fn with_passphrases(kept: DataFile) -> DataFile {
    kept.keep_secret("passphrase", &format!("{PASSPHRASE}\n"));
    kept.keep_secret("another", ANOTHER);
    kept
}

/// A data file with sealed keys, and the passphrase files beside it.
fn sealed() -> DataFile {
    let kept = with_passphrases(DataFile::new());
    kept.ends(
        "passphrase set passphrase",
        0,
        "sealed with the passphrase in passphrase",
    );
    kept
}

/// Reads from the file with this passphrase.
fn opened<T>(
    kept: &DataFile,
    passphrase: Option<&str>,
    read: impl FnOnce(&Store, &SealedKeys) -> T,
) -> T {
    let store = stores::of(KINDS).open_read_only(&kept.path("data"));
    read(
        &store,
        &SealedKeys::of(&store, passphrase.map(Passphrase::new).as_ref()).unwrap(),
    )
}

/// The private keys in the file, split into the lines of their PEM text.
fn keys(kept: &DataFile, passphrase: Option<&str>) -> Vec<String> {
    let material = opened(kept, passphrase, |store, sealed_keys| {
        store
            .read(|read| certificates::stored(read, sealed_keys))
            .unwrap()
            .unwrap()
    });
    let lines = [&material.root, &material.intermediate, &material.server]
        .map(|one| one.key.to_string())
        .join("\n");
    let pieces: Vec<String> = lines
        .lines()
        .filter(|line| !line.starts_with('-') && line.len() > 40)
        .map(str::to_owned)
        .collect();
    assert!(pieces.len() > 20);
    pieces
}

/// Maps each byte to a character, so that bytes can be searched as text.
fn as_text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// How many of these pieces are in a file.
fn found(kept: &DataFile, file: &str, pieces: &[String]) -> usize {
    let text = as_text(&kept.bytes(file));
    pieces
        .iter()
        .filter(|piece| text.contains(piece.as_str()))
        .count()
}

fn log_in(running: &overkeep::testing::controller::Controller, password: &str) -> Caller {
    trusting(&format!("https://{}", running.bound())).log_in("admin", password)
}

#[test]
fn sealing_leaves_no_plain_keys() {
    let kept = with_passphrases(DataFile::new());
    let before = keys(&kept, None);
    kept.ends("pki renew-key", 0, "a new key");
    let mut pieces = keys(&kept, None);
    let key = opened(&kept, None, |store, _| {
        store.read(|read| read.setting("seal")).unwrap().unwrap()
    });
    let record = opened(&kept, None, |store, sealed_keys| {
        store
            .read(|read| change::stored_seal(read, sealed_keys))
            .unwrap()
            .unwrap()
            .seal("a record", b"a secret")
            .unwrap()
    });
    pieces.push(as_text(&key));
    assert_eq!(
        found(&kept, "data", &pieces),
        pieces.len(),
        "the search finds unsealed keys"
    );
    assert!(
        found(&kept, "data", &before) > pieces.len() / 2,
        "the search finds replaced keys as well"
    );

    kept.ends(
        "passphrase set passphrase",
        0,
        "copies that were made before",
    );
    kept.ends("snapshot copy", 0, "");
    kept.ends("compact", 0, "");
    for file in ["data", "copy"] {
        assert_eq!(
            (found(&kept, file, &pieces), found(&kept, file, &before)),
            (0, 0),
            "{file}"
        );
    }
    assert_eq!(kept.names(), ["another", "copy", "data", "passphrase"]);
    assert_eq!(
        fs::metadata(kept.path("data"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    pieces.pop();
    assert_eq!(keys(&kept, Some(PASSPHRASE)), pieces);
    let seal = |store: &Store, sealed_keys: &SealedKeys| {
        store
            .read(|read| change::stored_seal(read, sealed_keys))
            .unwrap()
            .unwrap()
    };
    assert_eq!(
        opened(&kept, Some(PASSPHRASE), seal)
            .open("a record", &record)
            .unwrap(),
        b"a secret"
    );
}

#[test]
fn sealed_file_needs_its_passphrase() {
    let kept = with_passphrases(DataFile::empty());
    let controller = kept.start_with(Some("passphrase")).unwrap();
    let password = controller.generated_password().unwrap().to_owned();
    controller.password_was_seen().unwrap();
    let authorities = trusting(&format!("https://{}", controller.bound()))
        .get("/.well-known/est/cacerts")
        .expect(200)
        .text;
    kept.ends("snapshot copy", 0, "format 4 of release");
    let said = kept.run("check");
    assert!(
        said.status == 0 && !said.out.contains(NOT_CHECKED),
        "a running controller has the keys: {said:?}"
    );
    kept.ends("pki renew-key", 0, "a new key");
    kept.ends(
        "passphrase set another --passphrase-file passphrase",
        1,
        "in use by another process",
    );
    controller.stop();
    let pieces = keys(&kept, Some(PASSPHRASE));
    assert_eq!(
        (found(&kept, "data", &pieces), found(&kept, "copy", &pieces)),
        (0, 0)
    );

    let before = rows(&kept.path("data"));
    kept.ends(
        "run --listen 127.0.0.1:0",
        1,
        &format!("overkeep: passphrase-file: {SEALED}"),
    );
    kept.ends(
        "run --listen 127.0.0.1:0 --passphrase-file another",
        1,
        &format!("overkeep: passphrase-file: {WRONG}"),
    );
    kept.ends(
        "run --listen 127.0.0.1:0 --passphrase-file missing",
        1,
        "passphrase-file: missing: No such file",
    );
    kept.ends("admin reset-password admin", 1, SEALED);
    assert!(
        rows(&kept.path("data")) == before,
        "a refused start wrote something"
    );
    let mut verbose = kept.command("run --listen 127.0.0.1:0 --passphrase-file another");
    let said = format!(
        "{:?}",
        verbose.env("OVERKEEP_LOG_LEVEL", "trace").output().unwrap()
    );
    assert!(
        said.contains(WRONG)
            && ![PASSPHRASE, ANOTHER]
                .iter()
                .any(|secret| said.contains(secret)),
        "{said}"
    );
    kept.ends(
        "admin list --passphrase-file passphrase",
        0,
        "Default Admin",
    );

    // On another machine.
    fs::remove_file(kept.path("data")).unwrap();
    kept.ends("restore copy", 0, NOT_CHECKED);
    let controller = kept.start_with(Some("passphrase")).unwrap();
    let admin = log_in(&controller, &password);
    assert_eq!(
        admin.get("/.well-known/est/cacerts").expect(200).text,
        authorities
    );
}

#[test]
fn passphrase_change_needs_the_old() {
    let kept = sealed();
    let pieces = keys(&kept, Some(PASSPHRASE));
    let bytes = kept.bytes("data");
    kept.ends("passphrase set another", 1, SEALED);
    kept.ends("passphrase set another --passphrase-file another", 1, WRONG);
    kept.ends("passphrase remove", 1, SEALED);
    assert!(kept.bytes("data") == bytes);
    kept.ends(
        "passphrase set another --passphrase-file passphrase",
        0,
        "sealed with the passphrase in another",
    );
    kept.ends("pki status --passphrase-file passphrase", 1, WRONG);
    kept.ends("pki status --passphrase-file another", 0, "root");
    assert_eq!(found(&kept, "data", &pieces), 0);
    kept.ends(
        "passphrase remove --passphrase-file another",
        0,
        "not sealed any more",
    );
    assert!(keys(&kept, None) == pieces && found(&kept, "data", &pieces) == pieces.len());
    kept.ends("check data", 0, "format 4 of release");
    kept.ends(
        "run --listen 127.0.0.1:0 --passphrase-file another",
        1,
        "not sealed; overkeep passphrase set FILE seals them",
    );
    kept.start().stop();
}

#[test]
fn keyless_commands_need_no_passphrase() {
    let kept = sealed();
    kept.ends("snapshot copy", 0, "");
    for line in [
        "check",
        "check copy",
        "repair",
        "restore --verify-only copy",
    ] {
        kept.ends(line, 0, NOT_CHECKED);
        let said = kept.run(&format!("{line} --passphrase-file passphrase"));
        assert!(
            said.status == 0 && !said.out.contains(NOT_CHECKED),
            "{line}: {said:?}"
        );
    }
    kept.ends("check copy --passphrase-file another", 1, WRONG);
    let bytes = kept.bytes("data");
    kept.ends("restore copy --passphrase-file another", 1, WRONG);
    assert!(kept.bytes("data") == bytes);
    kept.ends("history verify", 0, "nothing is wrong");
    kept.ends("compact", 0, "bytes now");
    // An unsealed copy from before, although a passphrase is given.
    with_passphrases(DataFile::new()).ends(
        "check --passphrase-file passphrase",
        0,
        "the keys are not sealed",
    );
}

#[test]
fn damaged_sealed_key_is_found() {
    let kept = sealed();
    // Without a snapshot manifest, which would reveal every change.
    kept.start_with(Some("passphrase")).unwrap().stop();
    for (setting, says) in [
        ("pki", "the keys of the controller cannot be read"),
        ("seal", "the key that seals secrets of records"),
    ] {
        kept.tamper("data", "settings", |settings| {
            let mut bytes = settings
                .get(setting.as_bytes())
                .unwrap()
                .unwrap()
                .value()
                .to_vec();
            bytes[20] ^= 1;
            settings
                .insert(setting.as_bytes(), bytes.as_slice())
                .unwrap();
        });
        kept.ends("check --passphrase-file passphrase", 3, says);
    }
    kept.ends(
        "run --listen 127.0.0.1:0 --passphrase-file passphrase",
        1,
        "it cannot be decrypted",
    );
}

#[test]
fn kill_leaves_keys_whole() {
    const ROUNDS: u32 = 5;
    let begun = Instant::now();
    let kept = sealed();
    let takes = begun.elapsed();
    fs::write(kept.path("data"), DataFile::new().bytes("data")).unwrap();
    let pieces = keys(&kept, None);
    for round in 1..=ROUNDS {
        let mut process = kept
            .command("passphrase set passphrase")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(takes * round / ROUNDS);
        drop(process.kill());
        process.wait().unwrap();
        let is_sealed = {
            let store = stores::of(KINDS).open_read_only(&kept.path("data"));
            SealedKeys::unlock(&store, None).unwrap().is_none()
        };
        let passphrase = is_sealed.then_some(PASSPHRASE);
        assert!(keys(&kept, passphrase) == pieces, "round {round}");
        assert_eq!(
            found(&kept, "data", &pieces),
            if is_sealed { 0 } else { pieces.len() },
            "round {round}"
        );
        if is_sealed {
            fs::write(kept.path("data"), DataFile::new().bytes("data")).unwrap();
        }
    }
}
