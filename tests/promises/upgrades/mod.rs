//! Data files over years: scheduled snapshots and their rotation, files of other releases, and
//! bounded growth.

mod changes;
mod formats;
mod growth;
mod schedule;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{self, Read},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use flate2::read::GzDecoder;
use maintenance::{Maintenance, Schedule, offline, restore, snapshot_proof};
use model::{
    clock::{Clock, Timestamp},
    config::{Config, Snapshots, Span},
    entity::{ApiSession, ConfigType, Document, HistoryClass, Id, Identity, Record, builtin},
};
use overkeep::testing::controller::{self, Controller};
use pki::Passphrase;
use policy::change::{KINDS, SealedKeys};
use redb::{Database, ReadableTable, StorageBackend, TableDefinition, backends::InMemoryBackend};
use serde_json::json;
use store::{
    HistoryAnchor, NEWEST, Options, Progress, Retention, Store, Tx, Unreadable, beside, index_code,
};
use tempfile::TempDir;

use crate::{
    harness::{Answer, Base, TestServer, stores, trusting},
    integrity::rows,
};

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn configuration(data: &Path) -> Config {
    let mut config = Config {
        data: data.into(),
        ..Config::default()
    };
    config.listen = "127.0.0.1:0".parse().unwrap();
    config.passwords.cost = 10;
    config
}

/// The golden file of a format, made by the release that introduced it. `OVERKEEP_WRITE_GOLDEN=1`
/// regenerates the file of the newest format, which is allowed only until a release with that
/// format is published.
fn golden(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/format-{format}.redb.gz"))
}

/// The passphrase of the sealed keys in all golden files but the first.
const PASSPHRASE: &str = "the golden passphrase";

fn unpack(format: u32, to: &Path) {
    let mut bytes = Vec::new();
    GzDecoder::new(fs::File::open(golden(format)).unwrap())
        .read_to_end(&mut bytes)
        .unwrap();
    fs::write(to, bytes).unwrap();
}

fn pack(format: u32, file: &Path) {
    let mut out = flate2::GzBuilder::new().write(
        fs::File::create(golden(format)).unwrap(),
        flate2::Compression::best(),
    );
    std::io::copy(&mut fs::File::open(file).unwrap(), &mut out).unwrap();
    out.finish().unwrap();
}

fn write_golden() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let given = directory.path().join("given");
    fs::write(&given, "the golden password").unwrap();
    let mut config = configuration(&data);
    config.admin_password_file = Some(given);
    let running = controller::start(&config, Clock::system()).unwrap();
    let admin =
        trusting(&format!("https://{}", running.bound())).log_in("admin", "the golden password");
    let make = |path: &str, body: serde_json::Value| admin.post(path, body).expect(201).id();
    let roles = json!(["laptops"]);
    make(
        "/identities",
        json!({ "name": "alice", "type": "Device", "isAdmin": false, "roleAttributes": roles, "appData": { "desk": "7" }, "enrollment": { "ott": true } }),
    );
    let types = admin
        .get("/config-types?filter=name%3D%22ziti-tunneler-client.v1%22")
        .expect(200);
    let data_of = json!({ "hostname": "database.internal", "port": 5432 });
    let config = make(
        "/configs",
        json!({ "name": "database", "configTypeId": types.data()[0]["id"], "data": data_of }),
    );
    make(
        "/services",
        json!({ "name": "database", "encryptionRequired": true, "configs": [config] }),
    );
    make(
        "/service-policies",
        json!({ "name": "dial", "type": "Dial", "semantic": "AnyOf", "identityRoles": ["#laptops"], "serviceRoles": ["#all"] }),
    );
    make("/edge-routers", json!({ "name": "edge" }));
    make("/transit-routers", json!({ "name": "transit" }));
    make(
        "/edge-router-policies",
        json!({ "name": "everybody", "semantic": "AnyOf", "identityRoles": ["#all"], "edgeRouterRoles": ["#all"] }),
    );
    make("/posture-checks", json!({ "name": "mfa", "typeId": "MFA" }));
    make(
        "/external-jwt-signers",
        json!({ "name": "signer", "issuer": "https://issuer.example.org", "audience": "overkeep", "enabled": true, "jwksEndpoint": "https://issuer.example.org/keys" }),
    );
    let reports = json!([
        { "typeId": "OS", "id": "any", "type": "Linux", "version": "6.1.0", "build": "7" },
        { "typeId": "MAC", "id": "any", "macAddresses": ["00:1b:44:11:3a:b7"] },
        { "typeId": "DOMAIN", "id": "any", "domain": "corp" },
        { "typeId": "PROCESS", "id": "any", "path": "/bin/guard", "isRunning": true, "hash": "ab12", "signerFingerprints": ["ab12"] },
        { "typeId": "ENDPOINT_STATE", "id": "any", "woken": true, "unlocked": true },
    ]);
    admin
        .at(Base::Client)
        .post("/posture-response-bulk", reports)
        .expect(200);
    let copy = directory.path().join("copy");
    running.stop();
    offline::snapshot(&data, &copy, &Progress::default()).unwrap();
    offline::reseal(
        &copy,
        None,
        Some(&Passphrase::new(PASSPHRASE)),
        &Progress::default(),
    )
    .unwrap();
    pack(NEWEST, &copy);
}

/// The kinds of which a file of the newest format holds records. A kind made since that format
/// joins them with the next format: no file that a release wrote holds records of it.
pub const FILED_KINDS: [&str; 25] = [
    "apiSession",
    "apiSessionCertificate",
    "apiToken",
    "authPolicy",
    "authenticator",
    "ca",
    "config",
    "configType",
    "controller",
    "edgeRouter",
    "edgeRouterPolicy",
    "endpointReport",
    "enrollment",
    "externalJwtSigner",
    "identity",
    "identityType",
    "mfa",
    "postureCheck",
    "postureCheckType",
    "service",
    "serviceEdgeRouterPolicy",
    "servicePolicy",
    "session",
    "terminator",
    "transitRouter",
];

fn hex(text: &serde_json::Value) -> Vec<u8> {
    let text = text.as_str().unwrap();
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// The prefix of the index keys of a field up to format 2.
fn earlier_prefix(kind: &str, field: &str) -> Vec<u8> {
    [kind, field]
        .iter()
        .flat_map(|name| std::iter::once(u8::try_from(name.len()).unwrap()).chain(name.bytes()))
        .collect()
}

/// Turns a file of format 3 into one of format 2, which has no index rows of these fields.
fn take_back(data: &Path, unknown: &[(&str, &str)]) {
    let database = Database::open(data).unwrap();
    let transaction = database.begin_write().unwrap();
    let codes: BTreeMap<_, _> = KINDS
        .iter()
        .flat_map(|entry| {
            (entry.indexed)()
                .into_iter()
                .map(|field| (index_code(entry.kind, field), (entry.kind.name, field)))
        })
        .collect();
    {
        let mut index = transaction
            .open_table(TableDefinition::<&[u8], &[u8]>::new("index"))
            .unwrap();
        let rows: Vec<_> = index
            .iter()
            .unwrap()
            .map(|row| {
                row.map(|(key, row)| (key.value().to_vec(), row.value().to_vec()))
                    .unwrap()
            })
            .collect();
        for (key, row) in rows {
            index.remove(key.as_slice()).unwrap();
            let (code, value) = key.split_first_chunk().unwrap();
            let (kind, field) = codes[code];
            if !unknown.contains(&(kind, field)) {
                index
                    .insert(
                        [earlier_prefix(kind, field).as_slice(), value]
                            .concat()
                            .as_slice(),
                        row.as_slice(),
                    )
                    .unwrap();
            }
        }
        let mut meta = transaction
            .open_table(TableDefinition::<&[u8], &[u8]>::new("meta"))
            .unwrap();
        meta.insert(b"format".as_slice(), 2_u32.to_le_bytes().as_slice())
            .unwrap();
    }
    transaction.commit().unwrap();
}
