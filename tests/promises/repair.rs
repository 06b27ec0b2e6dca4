//! Every kind of damage to a data file, applied to every kind of record: the check finds and names
//! it, and the repair fixes it where there is one right answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use overkeep::testing::{
    change::{KINDS, SealedKeys},
    clock::{Clock, Timestamp},
    config::Config,
    controller,
    entity::{
        ApiSession, ApiToken, AuthPolicy, Authenticator, Ca, Config as ServiceConfig, ConfigType,
        Controller, Credential, EdgeRouter, EdgeRouterPolicy, EndpointReport, Enrollment, Entity,
        ExternalJwtSigner, Id, Identity, Mfa, PostureCheck, Record, Roles, Service,
        ServiceEdgeRouterPolicy, ServicePolicy, Session, SessionCertificate, Terminator,
        TransitRouter,
    },
    maintenance::{Maintenance, Scrub, Work},
    store::{
        DeleteRule, KindEntry, Options, Progress, Report, Store, Tx, Unreadable, decode, encode,
        index_code,
    },
};
use pki::{AlternativeNames, Certificate, Material};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::{
    harness::{Authority, stores, trusting},
    simulated_disk::SimulatedDisk,
    upgrades::FILED_KINDS,
};

const PASSWORD: &str = "the password of a broken file";
const INDEX: &str = "index";
const SETTINGS: &str = "settings";

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A data file that a controller created, with records of every kind, every reference set, and the
/// certificate of an authority where one is possible.
static SOUND_FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let directory = TempDir::new().unwrap();
    let config = configuration(&directory);
    controller::start(&config, Clock::system()).unwrap().stop();
    let store = stores::of(KINDS).start(&config.data);
    store.write_blocking(fill).unwrap();
    store.close();
    fs::read(&config.data).unwrap()
});

fn configuration(directory: &TempDir) -> Config {
    let given = directory.path().join("given");
    fs::write(&given, PASSWORD).unwrap();
    let mut config = Config {
        data: directory.path().join("data"),
        admin_password_file: Some(given),
        ..Config::default()
    };
    config.listen = "127.0.0.1:0".parse().unwrap();
    config.passwords.cost = 10;
    config
}

fn put<E: Entity>(
    tx: &Tx<'_>,
    id: &str,
    spec: Json,
    state: Json,
) -> overkeep::testing::error::Result<()> {
    let mut record = Record::<E>::new(
        Id::from_text(id),
        Timestamp::from_millis(1_000),
        serde_json::from_value(spec).unwrap(),
    );
    if !state.is_null() {
        record.state = serde_json::from_value(state).unwrap();
    }
    tx.insert(record)
}

fn fill(tx: &Tx<'_>) -> overkeep::testing::error::Result<()> {
    let issued = |name: &str| {
        let pem = Authority::new(name).pem();
        (Certificate::first(&pem).unwrap().fingerprint(), pem)
    };
    let dates = json!({ "notBefore": "2026-01-01T00:00:00Z", "notAfter": "2027-01-01T00:00:00Z", "commonName": "signer" });
    let (fingerprint, pem) = issued("signer");
    let mut state = dates;
    state["fingerprint"] = json!(fingerprint);
    let signer = json!({ "name": "signer", "enabled": true, "issuer": "https://idp", "audience": "us", "kid": "k", "certPem": pem, "claimsProperty": "sub" });
    put::<ExternalJwtSigner>(tx, "a-signer", signer, state)?;
    let updb = json!({
        "allowed": true, "minPasswordLength": 8, "requireSpecialChar": false, "requireNumberChar": false, "requireMixedCase": false,
        "maxAttempts": 3, "lockoutDurationMinutes": 5
    });
    let primary = json!({ "cert": { "allowed": true, "allowExpiredCerts": false }, "extJwt": { "allowed": true, "allowedSigners": ["a-signer"] }, "updb": updb });
    let secondary = json!({ "requireTotp": false, "requireExtJwtSigner": "a-signer" });
    put::<AuthPolicy>(
        tx,
        "a-policy",
        json!({ "name": "strict", "primary": primary, "secondary": secondary }),
        Json::Null,
    )?;
    put::<ConfigType>(
        tx,
        "a-type",
        json!({ "name": "a-type", "schema": {} }),
        Json::Null,
    )?;
    put::<ServiceConfig>(
        tx,
        "a-config",
        json!({ "name": "a-config", "configTypeId": "a-type", "data": {} }),
        Json::Null,
    )?;
    let service = json!({ "name": "a-service", "encryptionRequired": true, "roleAttributes": ["web"], "configs": ["a-config"] });
    put::<Service>(tx, "a-service", service, Json::Null)?;
    let identity = json!({
        "name": "somebody", "type": "Device", "isAdmin": false, "roleAttributes": ["sales"], "authPolicyId": "a-policy", "externalId": "ext",
        "serviceHostingCosts": { "a-service": 7 }
    });
    let overrides = json!([{ "service": "a-service", "config": "a-config" }]);
    put::<Identity>(tx, "an-identity", identity, Json::Null)?;
    let mut identity =
        overkeep::testing::entity::TypedLookup::get(tx, &Id::<Identity>::from_text("an-identity"))?;
    identity.state.service_configs = serde_json::from_value(overrides).unwrap();
    tx.put(identity)?;
    put::<ApiToken>(
        tx,
        "a-token",
        json!({ "name": "a-token", "identityId": "an-identity" }),
        json!({ "hash": "00" }),
    )?;
    let check = json!({ "typeId": "MFA", "name": "a-check", "roleAttributes": ["strict"], "timeoutSeconds": 600 });
    put::<PostureCheck>(tx, "a-check", check, Json::Null)?;
    let roles = json!({
        "name": "dial", "type": "Dial", "semantic": "AnyOf", "identityRoles": ["@an-identity"], "serviceRoles": ["@a-service"],
        "postureCheckRoles": ["@a-check"]
    });
    put::<ServicePolicy>(tx, "a-service-policy", roles, Json::Null)?;
    fill_routers(tx, &issued)?;
    fill_credentials(tx, &issued)
}

type Issued<'i> = &'i dyn Fn(&str) -> (String, String);

fn fill_routers(tx: &Tx<'_>, issued: Issued<'_>) -> overkeep::testing::error::Result<()> {
    let state = || {
        let ((fingerprint, pem), (next, next_pem)) = (issued("router"), issued("next"));
        json!({ "isVerified": true, "fingerprint": fingerprint, "certPem": pem, "unverifiedFingerprint": next, "unverifiedCertPem": next_pem })
    };
    put::<EdgeRouter>(
        tx,
        "an-edge-router",
        json!({ "name": "edge", "roleAttributes": ["public"] }),
        state(),
    )?;
    put::<TransitRouter>(
        tx,
        "a-transit-router",
        json!({ "name": "transit" }),
        state(),
    )?;
    let roles = json!({ "name": "of identities", "semantic": "AnyOf", "edgeRouterRoles": ["@an-edge-router"], "identityRoles": ["@an-identity"] });
    put::<EdgeRouterPolicy>(tx, "a-router-policy", roles, Json::Null)?;
    let roles = json!({ "name": "of services", "semantic": "AnyOf", "edgeRouterRoles": ["@an-edge-router"], "serviceRoles": ["@a-service"] });
    put::<ServiceEdgeRouterPolicy>(tx, "a-service-router-policy", roles, Json::Null)?;
    let terminator = |router: &str| json!({ "address": "tcp:localhost:80", "binding": "transport", "router": router, "service": "a-service" });
    let state = |transit: bool| json!({ "isOnTransitRouter": transit, "hostId": "" });
    put::<Terminator>(
        tx,
        "an-edge-terminator",
        terminator("an-edge-router"),
        state(false),
    )?;
    put::<Terminator>(
        tx,
        "a-transit-terminator",
        terminator("a-transit-router"),
        state(true),
    )?;
    let (fingerprint, pem) = issued("controller");
    let controller = json!({
        "name": "other", "certPem": pem, "fingerprint": fingerprint, "isOnline": false, "lastJoinedAt": "2026-01-01T00:00:00Z",
        "ctrlAddress": null, "apiAddresses": {}
    });
    put::<Controller>(tx, "a-controller", controller, Json::Null)
}

fn fill_credentials(tx: &Tx<'_>, issued: Issued<'_>) -> overkeep::testing::error::Result<()> {
    let (fingerprint, pem) = issued("partner");
    let ca = json!({
        "name": "partner", "certPem": pem, "isAuthEnabled": true, "isAutoCaEnrollmentEnabled": true, "isOttCaEnrollmentEnabled": true, "identityRoles": []
    });
    put::<Ca>(
        tx,
        "a-ca",
        ca,
        json!({ "fingerprint": fingerprint, "isVerified": true, "verificationToken": "v" }),
    )?;
    let ((fingerprint, pem), (next, next_pem)) = (issued("laptop"), issued("renewed"));
    let cert = json!({ "cert": { "fingerprint": fingerprint, "pem": pem, "unverified": { "fingerprint": next, "pem": next_pem } } });
    put::<Authenticator>(
        tx,
        "a-certificate",
        json!({ "identityId": "an-identity", "credential": cert }),
        json!({ "caId": "a-ca" }),
    )?;
    let updb = json!({ "updb": { "username": "somebody", "password": "$scrypt$" } });
    put::<Authenticator>(
        tx,
        "a-password",
        json!({ "identityId": "an-identity", "credential": updb }),
        json!({ "caId": null }),
    )?;
    let enrollment = |method: &str, member: &str, id: &str| {
        let mut spec = json!({ "method": method, "token": format!("token {id}"), "expiresAt": "2026-01-01T00:00:00Z", "jwt": "j" });
        spec[member] = json!(id);
        spec["caId"] = if method == "ottca" {
            json!("a-ca")
        } else {
            Json::Null
        };
        spec
    };
    put::<Enrollment>(
        tx,
        "an-enrollment",
        enrollment("ottca", "identityId", "an-identity"),
        Json::Null,
    )?;
    put::<Enrollment>(
        tx,
        "an-edge-enrollment",
        enrollment("erott", "edgeRouterId", "an-edge-router"),
        Json::Null,
    )?;
    put::<Enrollment>(
        tx,
        "a-transit-enrollment",
        enrollment("trott", "transitRouterId", "a-transit-router"),
        Json::Null,
    )?;
    let session = json!({
        "token": "t", "identityId": "an-identity", "authenticatorId": "a-certificate", "configTypes": [], "ipAddress": "192.0.2.1",
        "isMfaRequired": false, "isMfaComplete": false, "lastActivityAt": "2026-01-01T00:00:00Z"
    });
    put::<ApiSession>(
        tx,
        "an-api-session",
        session,
        json!({ "ca_id": "a-ca", "passed_at": null, "epoch": 0 }),
    )?;
    let session = json!({
        "token": "s", "api_session_id": "an-api-session", "identity_id": "an-identity", "service_id": "a-service", "policy_type": "Dial",
        "service_policies": []
    });
    put::<Session>(tx, "a-session", session, Json::Null)?;
    let (fingerprint, pem) = issued("session");
    let certificate = json!({
        "api_session_id": "an-api-session", "subject": "CN=x", "fingerprint": fingerprint, "certificate": pem,
        "valid_from": "2026-01-01T00:00:00Z", "valid_to": "2026-01-02T00:00:00Z"
    });
    put::<SessionCertificate>(tx, "a-session-certificate", certificate, Json::Null)?;
    let process = json!({ "is_running": true, "hash": "ab", "signers": ["cd"] });
    let answered =
        |what: Json| json!({ "check": "a-check", "at": "2026-01-01T00:00:00Z", "what": what });
    let report = json!({
        "api_session_id": "an-api-session", "restorations": 0, "os": answered(json!({ "os_type": "Linux", "version": "6.1.0", "build": "" })),
        "domain": answered(json!("corp")), "addresses": answered(json!(["00ff"])), "processes": [answered(process.clone())],
        "paths": [answered(json!(["/bin/guard", process]))], "passed": { "shown": "2026-01-01T00:00:00Z", "at": "2026-01-01T00:00:00Z" },
        "woken": null, "unlocked": null
    });
    put::<EndpointReport>(tx, "an-api-session", report, Json::Null)?;
    put::<Mfa>(
        tx,
        "an-mfa",
        json!({ "identityId": "an-identity", "sealed": [1, 2, 3], "isVerified": true }),
        json!({ "used": [] }),
    )
}

/// A damaged file on a disk in memory that nobody has open.
struct Damaged(SimulatedDisk);

impl Damaged {
    /// The complete file with this change.
    fn by(change: impl FnOnce(&WriteTransaction)) -> Self {
        let damaged = Self(SimulatedDisk::holding(SOUND_FILE.clone(), 0));
        let database = damaged.database();
        let transaction = database.begin_write().unwrap();
        change(&transaction);
        transaction.commit().unwrap();
        damaged
    }

    fn database(&self) -> Database {
        Database::builder()
            .create_with_backend(self.0.clone())
            .unwrap()
    }

    fn rows(&self, table: &str) -> Rows {
        let database = self.database();
        let transaction = database.begin_read().unwrap();
        let table = transaction
            .open_table(TableDefinition::<&[u8], &[u8]>::new(table))
            .unwrap();
        table
            .iter()
            .unwrap()
            .map(|row| {
                row.map(|(key, value)| (key.value().to_vec(), value.value().to_vec()))
                    .unwrap()
            })
            .collect()
    }

    fn with<T>(&self, act: impl FnOnce(&Store) -> T) -> T {
        let store = stores::of(KINDS).start_on(self.0.clone());
        let done = act(&store);
        store.close();
        done
    }

    /// The reports of a check, of a repair, and of a check after it.
    fn reports(&self) -> [Report; 3] {
        let watch = Progress::default();
        self.with(|store| {
            [
                store.check(&watch).unwrap(),
                store.repair(Unreadable::Stays, &watch).unwrap(),
                store.check(&watch).unwrap(),
            ]
        })
    }
}

fn descriptions(report: &Report) -> BTreeSet<&str> {
    report
        .findings
        .iter()
        .map(|finding| finding.description.as_str())
        .collect()
}

fn unfixed(report: &Report) -> BTreeSet<&str> {
    report
        .findings
        .iter()
        .filter(|finding| !finding.fixed)
        .map(|finding| finding.description.as_str())
        .collect()
}

fn table(kind: &str) -> String {
    format!("records.{kind}")
}

fn set(tx: &WriteTransaction, table: &str, key: &[u8], value: &[u8]) {
    tx.open_table(TableDefinition::<&[u8], &[u8]>::new(table))
        .unwrap()
        .insert(key, value)
        .unwrap();
}

fn remove(tx: &WriteTransaction, table: &str, key: &[u8]) {
    assert!(
        tx.open_table(TableDefinition::<&[u8], &[u8]>::new(table))
            .unwrap()
            .remove(key)
            .unwrap()
            .is_some()
    );
}

/// A kind and its records by id.
type Records = (&'static KindEntry, BTreeMap<String, Vec<u8>>);

/// Every kind.
static RECORDS: LazyLock<Vec<Records>> = LazyLock::new(|| {
    let whole = Damaged(SimulatedDisk::holding(SOUND_FILE.clone(), 0));
    let text = |id: Vec<u8>| String::from_utf8(id).unwrap();
    let records = |entry: &KindEntry| {
        whole
            .rows(&table(entry.kind.name))
            .into_iter()
            .map(|(id, bytes)| (text(id), bytes))
            .collect()
    };
    KINDS.iter().map(|entry| (entry, records(entry))).collect()
});

/// One record of each kind that [`fill`] makes, which are at least those of the newest format.
fn one_of_each() -> impl Iterator<Item = (&'static KindEntry, &'static str, &'static [u8])> {
    RECORDS.iter().filter_map(|(entry, records)| {
        let last = records.iter().next_back();
        assert!(
            last.is_some() || !FILED_KINDS.contains(&entry.kind.name),
            "there is no {}",
            entry.kind.name
        );
        last.map(|(id, bytes)| (*entry, id.as_str(), bytes.as_slice()))
    })
}

#[test]
fn file_of_every_kind_is_sound() {
    let whole = Damaged::by(|_| ());
    assert_eq!(
        whole.reports(),
        [const {
            Report {
                findings: Vec::new(),
                more: false,
                notes: Vec::new(),
            }
        }; 3]
    );
}

#[test]
fn damaged_records_are_named() {
    // A byte of the version, of the checksum, and of what the checksum covers.
    for at in [0, 3, 7] {
        let damaged = Damaged::by(|tx| {
            for (entry, id, bytes) in one_of_each() {
                let mut bytes = bytes.to_vec();
                bytes[at] ^= 0x10;
                set(tx, &table(entry.kind.name), id.as_bytes(), &bytes);
            }
        });
        let [found, fixed, left] = damaged.reports();
        for report in [&found, &fixed, &left] {
            assert_eq!(
                unfixed(report).len(),
                one_of_each().count(),
                "byte {at}: {report:?}"
            );
        }
        for (entry, id, _) in one_of_each() {
            assert!(
                descriptions(&found)
                    .iter()
                    .any(|text| text.contains(&format!("{} {id}", entry.kind.name))),
                "{} {id}: {found:?}",
                entry.kind.name
            );
        }
    }
}

#[test]
fn missing_index_rows_return() {
    let mut expected = BTreeSet::new();
    let damaged = Damaged::by(|tx| {
        for (entry, records) in RECORDS.iter() {
            let mut fields = BTreeSet::new();
            for (id, bytes) in records {
                for own in (entry.parts)(id, bytes)
                    .unwrap()
                    .entries
                    .iter()
                    .filter(|own| fields.insert(own.field))
                {
                    remove(tx, INDEX, &own.key);
                    expected.insert(format!(
                        "the index of {} lacks the {} {id}",
                        own.field, entry.kind.name
                    ));
                }
            }
        }
    });
    let [found, fixed, left] = damaged.reports();
    assert!(expected.len() > 60);
    assert_eq!(
        descriptions(&found),
        expected.iter().map(String::as_str).collect()
    );
    assert!(
        unfixed(&fixed).is_empty() && left == Report::default(),
        "{fixed:?}, {left:?}"
    );
    assert_eq!(
        damaged.rows(INDEX),
        Damaged(SimulatedDisk::holding(SOUND_FILE.clone(), 0)).rows(INDEX)
    );
}

#[test]
fn surplus_rows_go_for_every_kind() {
    let mut expected = BTreeSet::new();
    let damaged = Damaged::by(|tx| {
        for (entry, id, bytes) in one_of_each() {
            let entries = (entry.parts)(id, bytes).unwrap().entries;
            let Some(own) = entries.first() else { continue };
            let (kind, field) = (entry.kind.name, own.field);
            set(tx, INDEX, &[&own.key[..own.prefix], b"ghost"].concat(), b"");
            expected.insert(format!(
                "the index of {field} has the {kind} ghost, which does not exist"
            ));
            set(
                tx,
                INDEX,
                &[
                    &index_code(entry.kind, field),
                    b"an unused value\0\0".as_slice(),
                    id.as_bytes(),
                ]
                .concat(),
                b"",
            );
            expected.insert(format!(
                "the index of {field} has a value that the {kind} {id} does not have"
            ));
        }
    });
    let [found, fixed, left] = damaged.reports();
    assert!(expected.len() > 40);
    assert_eq!(
        descriptions(&found),
        expected.iter().map(String::as_str).collect()
    );
    assert!(
        unfixed(&fixed).is_empty() && left == Report::default(),
        "{fixed:?}, {left:?}"
    );
}

#[test]
fn duplicate_unique_values_are_named() {
    let mut expected = BTreeSet::new();
    let damaged = Damaged::by(|tx| {
        for (entry, id, bytes) in one_of_each() {
            let mut twin = bytes.to_vec();
            let mut sum = crc32fast::Hasher::new();
            [b"twin".as_slice(), &bytes[..1], &bytes[5..]]
                .iter()
                .for_each(|part| sum.update(part));
            twin[1..5].copy_from_slice(&sum.finalize().to_le_bytes());
            set(tx, &table(entry.kind.name), b"twin", &twin);
            let unique = (entry.parts)(id, bytes)
                .unwrap()
                .entries
                .into_iter()
                .filter(|own| own.unique);
            expected.extend(unique.map(|own| {
                format!(
                    "the {} twin has the same {} as {id}",
                    entry.kind.name, own.field
                )
            }));
        }
        // Its id is the unique value.
        expected
            .insert("the endpointReport twin is about another API session than its id says".into());
    });
    let expected: BTreeSet<&str> = expected.iter().map(String::as_str).collect();
    let [found, fixed, left] = damaged.reports();
    assert!(
        expected.len() > 15 && descriptions(&found).is_superset(&expected),
        "{found:?}"
    );
    assert_eq!(
        (unfixed(&fixed), descriptions(&left)),
        (expected.clone(), expected)
    );
}

#[test]
fn every_dangling_reference_is_repaired() {
    for (entry, records) in RECORDS
        .iter()
        .filter(|(entry, _)| FILED_KINDS.contains(&entry.kind.name))
    {
        for edge in (entry.edges)() {
            let kind = entry.kind.name;
            let target = |id: &String, bytes: &Vec<u8>| {
                let mut targets = (entry.parts)(id, bytes).unwrap().targets.into_iter();
                targets
                    .find(|target| (target.field, target.kind) == (edge.field, edge.to))
                    .map(|target| target.id)
            };
            let named = records
                .iter()
                .find_map(|(id, bytes)| Some((id, target(id, bytes)?)));
            let (id, gone) =
                named.unwrap_or_else(|| panic!("no {kind} has {} of {}", edge.field, edge.to.name));
            let damaged = Damaged::by(|tx| remove(tx, &table(edge.to.name), gone.as_bytes()));
            let [found, fixed, left] = damaged.reports();
            let description = format!(
                "the {kind} {id} refers by {} to the {} {gone}, which does not exist",
                edge.field, edge.to.name
            );
            assert!(
                unfixed(&found).contains(description.as_str()),
                "{description}: {found:?}"
            );
            let is_restricted = edge.rule == DeleteRule::Restrict;
            for report in [&fixed, &left] {
                assert_eq!(
                    unfixed(report).contains(description.as_str()),
                    is_restricted,
                    "{description}: {report:?}"
                );
            }
            let after = damaged.rows(&table(kind)).remove(id.as_bytes());
            assert_eq!(
                after.is_none(),
                edge.rule == DeleteRule::Cascade && !is_restricted,
                "{description}"
            );
            if edge.rule == DeleteRule::Clear {
                assert_eq!(target(id, &after.unwrap()), None, "{description}");
            }
        }
    }
}

/// Writes a changed record without any validation.
fn rewrite<E: Entity>(
    tx: &WriteTransaction,
    id: &str,
    change: impl FnOnce(&mut Record<E>),
) -> String {
    let (_, records) = RECORDS
        .iter()
        .find(|(entry, _)| entry.kind == E::KIND)
        .unwrap();
    let mut record = decode::<E>(id, &records[id]).unwrap();
    change(&mut record);
    set(
        tx,
        &table(E::KIND.name),
        id.as_bytes(),
        &encode(&record).unwrap(),
    );
    format!("the {} {id} ", E::KIND.name)
}

#[test]
fn records_that_contradict_themselves_are_named() {
    let other = "0".repeat(40);
    let roles = |entries: &[&str]| {
        entries
            .iter()
            .map(|entry| (*entry).to_owned())
            .collect::<Roles>()
    };
    let mut expected_flaws = Vec::new();
    let damaged = Damaged::by(|tx| {
        let certificate = "has a fingerprint that does not match its certificate";
        expected_flaws.extend(
            [
                rewrite::<Authenticator>(tx, "a-certificate", |r| {
                    let Credential::Cert { unverified, .. } = &mut r.spec.credential else {
                        panic!("it is a certificate")
                    };
                    unverified.as_mut().unwrap().fingerprint = other.clone();
                }),
                rewrite::<Ca>(tx, "a-ca", |r| r.state.fingerprint = other.clone()),
                rewrite::<Controller>(tx, "a-controller", |r| r.spec.fingerprint = other.clone()),
                rewrite::<EdgeRouter>(tx, "an-edge-router", |r| r.state.fingerprint = None),
                rewrite::<ExternalJwtSigner>(tx, "a-signer", |r| r.state.fingerprint = None),
                rewrite::<SessionCertificate>(tx, "a-session-certificate", |r| {
                    r.spec.certificate = "no PEM at all".into()
                }),
                rewrite::<TransitRouter>(tx, "a-transit-router", |r| {
                    r.state.unverified_fingerprint = Some(other.clone())
                }),
            ]
            .map(|named| named + certificate),
        );
        expected_flaws.extend([
            rewrite::<Enrollment>(tx, "an-enrollment", |r| r.spec.identity_id = None)
                + "does not belong to exactly one identity or router",
            rewrite::<EdgeRouterPolicy>(tx, "a-router-policy", |r| {
                r.spec.identity_roles = roles(&["#all", "#others"])
            }) + "names #all together with other entries",
            rewrite::<ServiceEdgeRouterPolicy>(tx, "a-service-router-policy", |r| {
                r.spec.service_roles = roles(&["bare"])
            }) + "has a role entry that is neither an attribute nor an id",
            rewrite::<ServicePolicy>(tx, "a-service-policy", |r| {
                r.spec.posture_check_roles = roles(&["bare"])
            }) + "has a role entry that is neither an attribute nor an id",
        ]);
    });
    let expected: BTreeSet<&str> = expected_flaws.iter().map(String::as_str).collect();
    let [found, fixed, left] = damaged.reports();
    assert!(descriptions(&found).is_superset(&expected), "{found:?}");
    assert_eq!(
        (unfixed(&fixed), descriptions(&left)),
        (expected.clone(), expected)
    );
}

/// The report of a check of the complete file, keys included.
fn check_of(damaged: &Damaged, clock: Clock) -> Report {
    let store = stores::of(KINDS)
        .with(Options {
            clock: clock.clone(),
            ..Options::default()
        })
        .start_on(damaged.0.clone());
    let directory = TempDir::new().unwrap();
    let report = Maintenance::new(
        store.clone(),
        SealedKeys::default(),
        clock,
        &directory.path().join("data"),
    )
    .run(Work::Check, &Arc::default())
    .unwrap();
    store.close();
    report
}

#[test]
fn mismatched_keys_are_named() {
    let stored = Damaged(SimulatedDisk::holding(SOUND_FILE.clone(), 0)).rows(SETTINGS)
        [b"pki".as_slice()]
    .clone();
    let own: Material = serde_json::from_slice(&stored).unwrap();
    let now = Clock::system().now();
    let other =
        Material::generate(&AlternativeNames::of_hosts(["localhost"]), now.seconds()).unwrap();
    let too_long = {
        let issuer = Issuer::from_ca_cert_pem(
            &own.root.certificate,
            KeyPair::from_pem(&own.root.key).unwrap(),
        )
        .unwrap();
        let (mut params, key) = (CertificateParams::default(), KeyPair::generate().unwrap());
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.not_after = rcgen::date_time_ymd(2400, 1, 1);
        pki::CertificateAndKey {
            certificate: params.signed_by(&key, &issuer).unwrap().pem(),
            key: key.serialize_pem().into(),
        }
    };
    let with = |change: &dyn Fn(&mut Material)| {
        let mut material = own.clone();
        change(&mut material);
        serde_json::to_vec(&material).unwrap()
    };
    let cases: [(Vec<u8>, &[&str]); 9] = [
        (
            with(&|all| all.server.key = other.server.key.clone()),
            &["the key of the server does not belong to its certificate"],
        ),
        (
            with(&|all| all.root.key = other.root.key.clone()),
            &["the key of the root does not belong to its certificate"],
        ),
        (
            with(&|all| all.server = other.server.clone()),
            &["the server is not signed by the intermediate"],
        ),
        (
            with(&|all| all.root = other.root.clone()),
            &["the intermediate is not signed by the root"],
        ),
        (
            with(&|all| all.retired.push(other.intermediate.certificate.clone())),
            &["an old intermediate is not signed by the root"],
        ),
        (
            with(&|all| all.intermediate = too_long.clone()),
            &[
                "the intermediate expires later than the root",
                "the server is not signed by the intermediate",
            ],
        ),
        (
            with(&|all| all.intermediate.certificate = "no PEM".into()),
            &["key or certificate of the intermediate cannot be read: no PEM block"],
        ),
        (
            with(&|all| all.shown.push("no PEM".into())),
            &["a certificate that listeners served cannot be read: no PEM block"],
        ),
        (
            b"{}".to_vec(),
            &["the keys of the controller cannot be read"],
        ),
    ];
    for (bytes, expected) in cases {
        let damaged = Damaged::by(|tx| set(tx, SETTINGS, b"pki", &bytes));
        let report = check_of(&damaged, Clock::system());
        assert_eq!(unfixed(&report), expected.iter().copied().collect());
    }
    let damaged = Damaged::by(|tx| remove(tx, SETTINGS, b"pki"));
    assert_eq!(
        unfixed(&check_of(&damaged, Clock::system())),
        ["the keys of the controller are missing"].into()
    );

    // Expired certificates alone are no damage.
    let later = check_of(
        &Damaged::by(|_| ()),
        Clock::manual(now.plus(Duration::from_secs(40 * 365 * 24 * 3600))),
    );
    assert!(
        later.findings.is_empty()
            && later.notes.len() == 3
            && later.notes[0].contains("the root has expired"),
        "{later:?}"
    );
}

#[test]
fn administrators_check_and_repair() {
    let directory = TempDir::new().unwrap();
    let config = configuration(&directory);
    let damaged = Damaged::by(|tx| {
        let (service, id) = (
            RECORDS
                .iter()
                .find(|(entry, _)| entry.kind == Service::KIND)
                .unwrap(),
            "a-service",
        );
        remove(
            tx,
            INDEX,
            &(service.0.parts)(id, &service.1[id]).unwrap().entries[0].key,
        );
        remove(tx, &table("postureCheck"), b"a-check");
        rewrite::<TransitRouter>(tx, "a-transit-router", |r| {
            r.state.unverified_fingerprint = None
        });
    });
    fs::write(&config.data, damaged.0.content()).unwrap();
    let controller = controller::start(&config, Clock::system()).unwrap();
    let admin = trusting(&format!("https://{}", controller.bound())).log_in("admin", PASSWORD);
    let run = |path: &str| {
        admin
            .post(&format!("/database/{path}"), Json::Null)
            .expect(202);
        let begun = Instant::now();
        loop {
            let answer = admin.get("/database/data-integrity-results").expect(200);
            if answer.data()["inProgress"] == false {
                return answer.data()["results"].as_array().unwrap().clone();
            }
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "the run does not end"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let has = |results: &[Json], text: &str, fixed: bool| {
        results
            .iter()
            .any(|one| one["description"].as_str().unwrap().contains(text) && one["fixed"] == fixed)
    };
    let (lacks, dangles, flaw) = (
        "lacks the service a-service",
        "refers by postureCheckIds to the postureCheck a-check",
        "a-transit-router has a fingerprint",
    );
    let found = run("check-data-integrity");
    assert!(
        [lacks, dangles, flaw]
            .iter()
            .all(|text| has(&found, text, false)),
        "{found:?}"
    );
    let fixed = run("fix-data-integrity");
    assert!(
        has(&fixed, lacks, true) && has(&fixed, dangles, true) && has(&fixed, flaw, false),
        "{fixed:?}"
    );
    let left = run("check-data-integrity");
    assert!(left.len() == 1 && has(&left, flaw, false), "{left:?}");
    controller.stop();
}

#[test]
fn scrub_reports_damage_once() {
    let drive = SimulatedDisk::holding(SOUND_FILE.clone(), 0);
    let store = stores::of(KINDS).start_on(drive.clone());
    let (clock, watch, directory) = (
        Clock::system(),
        Progress::default(),
        TempDir::new().unwrap(),
    );
    let maintenance = Maintenance::new(
        store.clone(),
        SealedKeys::default(),
        clock.clone(),
        &directory.path().join("data"),
    );
    let mut scrub = Scrub::of(&Config::default().integrity, maintenance, clock);
    assert_eq!(scrub.round(&watch).unwrap(), [""; 0]);
    store
        .write_blocking(|tx| {
            (0..300).try_for_each(|n| {
                put::<Service>(
                    tx,
                    &format!("s{n}"),
                    json!({ "name": format!("service {n}"), "encryptionRequired": true }),
                    Json::Null,
                )
            })
        })
        .unwrap();
    assert_eq!(
        scrub.round(&watch).unwrap(),
        [""; 0],
        "the scrub does not know what was written since"
    );

    // Flips a bit of a record that is cached in memory, so that only the scrub notices it before
    // the next start.
    let mut at = 0;
    drive.corrupt(|bytes| {
        at = bytes
            .windows(11)
            .rposition(|part| part == b"service 299")
            .unwrap();
        bytes[at] ^= 4;
    });
    assert_eq!(
        store.check(&watch).unwrap(),
        Report::default(),
        "the cache holds the right bytes"
    );
    let found = scrub.round(&watch).unwrap();
    let expected = format!(
        "the disk no longer holds what was written at byte {} of the file",
        at / 4096 * 4096
    );
    assert_eq!(found, [expected.as_str()]);
    assert_eq!(
        scrub.round(&watch).unwrap(),
        [""; 0],
        "it was reported already"
    );
    let descriptions = |report: Report| -> Vec<(String, bool)> {
        report
            .findings
            .into_iter()
            .map(|one| (one.description, one.fixed))
            .collect()
    };
    assert_eq!(
        descriptions(store.check(&watch).unwrap()),
        [(expected.clone(), false)],
        "a check reports it as well"
    );
    assert_eq!(
        descriptions(store.repair(Unreadable::Stays, &watch).unwrap()),
        [(expected, false)]
    );
    drive.corrupt(|bytes| bytes[at] ^= 4);
    assert_eq!(
        store.check(&watch).unwrap(),
        Report::default(),
        "the bytes are right again"
    );
    assert_eq!(scrub.round(&watch).unwrap(), [""; 0]);
    drive.corrupt(|bytes| bytes[at] ^= 4);
    assert_eq!(
        scrub.round(&watch).unwrap().len(),
        1,
        "the same damage returned"
    );
    store.close();

    // Damage that is in the rows and not on the disk.
    let damaged = Damaged::by(|tx| {
        rewrite::<Enrollment>(tx, "an-enrollment", |r| r.spec.identity_id = None);
        set(tx, INDEX, b"nobody's", b"");
        set(tx, SETTINGS, b"pki", b"{}");
        let mut history = tx
            .open_table(TableDefinition::<&[u8], &[u8]>::new("history"))
            .unwrap();
        let (key, mut row) = history
            .first()
            .unwrap()
            .map(|(key, row)| (key.value().to_vec(), row.value().to_vec()))
            .unwrap();
        *row.last_mut().unwrap() ^= 1;
        history.insert(key.as_slice(), row.as_slice()).unwrap();
    });
    damaged.with(|store| {
        let maintenance = Maintenance::new(
            store.clone(),
            SealedKeys::default(),
            Clock::system(),
            &directory.path().join("data"),
        );
        let found = Scrub::of(&Config::default().integrity, maintenance, Clock::system())
            .round(&watch)
            .unwrap();
        for part in [
            "an-enrollment does not belong to",
            "a row of the index cannot be read",
            "row 1 of the history",
            "the keys of the controller",
        ] {
            assert!(
                found.iter().any(|text| text.contains(part)),
                "{part}: {found:?}"
            );
        }
    });
}
