//! Restoring and repairing.

use super::*;

#[test]
fn restore_keeps_the_replaced_file() {
    let kept = DataFile::new();
    kept.ends("snapshot good", 0, "");
    let controller = kept.start();
    kept.ends("restore good", 1, "in use by another process");
    // The controller continues with a file that has lost its name; a restore would miss its later
    // writes.
    fs::rename(kept.path("data"), kept.path("away")).unwrap();
    kept.ends("restore good", 1, "in use by another process");
    assert!(!kept.path("data").exists());
    fs::rename(kept.path("away"), kept.path("data")).unwrap();
    controller.stop();
    let before = kept.bytes("data");
    kept.ends("restore good", 0, "the previous data file is kept as");
    let aside = kept
        .names()
        .into_iter()
        .find(|name| name.starts_with("data.before-restore-"))
        .unwrap();
    assert!(kept.bytes(&aside) == before && kept.bytes("data") == kept.bytes("good"));
    assert_eq!(
        fs::metadata(kept.path("data"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    kept.start().stop();
    kept.ends("restore data", 1, "data is the data file itself");
    // It is a data file now, no longer a snapshot.
    kept.ends("check data", 0, "nothing is wrong");
    kept.ends("restore --verify-only data", 1, "no manifest");

    // On another machine there is no file to keep.
    fs::remove_file(kept.path("data")).unwrap();
    fs::remove_file(kept.path(&aside)).unwrap();
    let said = kept.run("restore good");
    assert!(said.status == 0 && !said.out.contains("before"), "{said:?}");
    kept.start().stop();
}

#[test]
fn exit_status_tells_problems_and_repairs() {
    let kept = DataFile::new();
    let sound = kept.bytes("data");
    for line in ["repair", "repair --drop-unreadable"] {
        kept.ends(line, 0, "nothing is wrong");
        assert!(
            kept.names() == ["data"] && kept.bytes("data") == sound,
            "a sound file must not be copied"
        );
    }
    kept.tamper("data", "index", lose_half_the_index);
    let broken = kept.bytes("data");
    kept.ends("check", 3, "lacks the");
    kept.ends("snapshot broken", 0, "");
    kept.ends("restore --verify-only broken", 3, "lacks the");
    kept.ends("restore broken", 3, "lacks the");
    assert!(kept.bytes("data") == broken);
    kept.ends("repair", 0, "repaired: ");
    assert!(
        kept.bytes("data.before-repair") == broken,
        "the file must be copied first"
    );
    kept.ends("check", 0, "nothing is wrong");

    kept.tamper("data", "records.identity", |rows| {
        let (id, mut bytes) = rows
            .pop_first()
            .unwrap()
            .map(|(id, bytes)| (id.value().to_vec(), bytes.value().to_vec()))
            .unwrap();
        bytes[9] ^= 1;
        rows.insert(id.as_slice(), bytes.as_slice()).unwrap();
    });
    kept.ends("check", 3, "damaged");
    kept.ends("repair", 3, "damaged");
    let mut bytes = kept.bytes("data");
    bytes.truncate(bytes.len() / 2);
    fs::write(kept.path("data"), bytes).unwrap();
    kept.ends("check", 3, "is damaged");
    kept.ends("repair", 3, "is damaged");
    fs::remove_file(kept.path("data")).unwrap();
    kept.ends("check", 1, "No such file");
    kept.ends("repair", 1, "No such file");
}

#[test]
fn damaged_pages_name_a_remedy() {
    let kept = DataFile::new();
    kept.ends("snapshot good", 0, "");
    let (mut bytes, name) = (kept.bytes("data"), b"Default Admin");
    let places: Vec<usize> = (0..bytes.len() - name.len())
        .filter(|at| bytes[*at..].starts_with(name))
        .collect();
    places.into_iter().for_each(|at| bytes[at] ^= 1);
    fs::write(kept.path("data"), &bytes).unwrap();
    let helps = "overkeep restore SNAPSHOT --data data";
    for line in [
        "check",
        "repair",
        "repair --drop-unreadable",
        "snapshot out",
        "compact",
        "history verify",
        "passphrase remove",
    ] {
        kept.ends(line, 3, "data is damaged: page checksums do not match");
        kept.ends(line, 3, helps);
    }
    for line in ["run --listen 127.0.0.1:0", "admin list"] {
        let said = kept.run(line);
        assert!(
            said.status == 1
                && said.err.contains("page checksums do not match; ")
                && said.err.contains(helps),
            "{said:?}"
        );
    }
    kept.ends("restore good", 0, "nothing is wrong");
    kept.ends("check", 0, "nothing is wrong");
}

#[test]
fn repair_can_drop_unreadable_records() {
    let kept = DataFile::new();
    kept.tamper("data", "records.servicePolicy", |rows| {
        drop(rows.insert(b"torn".as_slice(), b"?".as_slice()).unwrap())
    });
    let refused = kept
        .start_with(None)
        .err()
        .expect("the rights cannot be computed")
        .to_string();
    assert!(
        refused.contains("servicePolicy torn is damaged")
            && refused.contains("overkeep repair --drop-unreadable"),
        "{refused}"
    );
    kept.ends("repair", 3, "torn is damaged");
    kept.ends(
        "repair --drop-unreadable",
        0,
        "repaired: the stored servicePolicy torn is damaged",
    );
    kept.ends("check data.before-repair", 3, "torn is damaged");
    kept.ends("check", 0, "nothing is wrong");
    let controller = kept.start();
    kept.ends("repair --drop-unreadable", 1, "in use");
    controller.stop();
}

#[test]
fn running_controller_repairs_its_file() {
    let kept = DataFile::new();
    kept.tamper("data", "index", |rows| {
        drop(rows.insert(b"nobody's".as_slice(), b"".as_slice()).unwrap())
    });
    let controller = kept.start();
    kept.ends("check", 3, "a row of the index cannot be read");
    kept.ends("repair", 0, "repaired: a row of the index");
    kept.ends("check", 0, "nothing is wrong");
    fs::rename(kept.path("data.before-repair"), kept.path("kept")).unwrap();
    kept.ends("repair", 0, "nothing is wrong");
    assert!(
        !kept.path("data.before-repair").exists(),
        "a sound file must not be copied"
    );
    fs::rename(kept.path("kept"), kept.path("data.before-repair")).unwrap();
    controller.stop();
    let before = stores::of(KINDS).open_read_only(&kept.path("data.before-repair"));
    assert!(before.manifest(&Progress::default()).unwrap().is_some());
}

#[test]
fn replacement_keeps_place_and_owner() {
    let kept = DataFile::new();
    kept.ends("snapshot copy", 0, "");
    kept.keep_secret("secret", "a passphrase of a test");
    fs::create_dir(kept.path("elsewhere")).unwrap();
    fs::rename(kept.path("data"), kept.path("elsewhere/real")).unwrap();
    symlink("elsewhere/real", kept.path("data")).unwrap();
    // Only the superuser can change the owner of a file.
    let is_given = chown(kept.path("elsewhere/real"), Some(4321), Some(4321)).is_ok();
    for line in ["restore copy", "passphrase set secret"] {
        kept.ends(line, 0, "");
        let (link, real) = (
            fs::symlink_metadata(kept.path("data")).unwrap(),
            fs::metadata(kept.path("elsewhere/real")).unwrap(),
        );
        assert!(
            link.is_symlink() && (!is_given || real.uid() == 4321),
            "{line}: {link:?}, {real:?}"
        );
    }
    kept.ends("check", 0, "not checked");
}
