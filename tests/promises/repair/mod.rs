//! Every kind of damage to a data file, applied to every kind of record: the check finds and names
//! it, and the repair fixes it where there is one right answer.

mod keys;
mod records;
mod running;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use maintenance::{Maintenance, Scrub, Work};
use model::{
    clock::{Clock, Timestamp},
    config::Config,
    entity::{
        ApiSession, ApiToken, AuthPolicy, Authenticator, Ca, Config as ServiceConfig, ConfigType,
        Controller, Credential, EdgeRouter, EdgeRouterPolicy, EndpointReport, Enrollment, Entity,
        ExternalJwtSigner, Id, Identity, Mfa, PostureCheck, Record, Roles, Service,
        ServiceEdgeRouterPolicy, ServicePolicy, Session, SessionCertificate, Terminator,
        TransitRouter,
    },
};
use overkeep::testing::controller;
use pki::{AlternativeNames, Certificate, Material};
use policy::change::{KINDS, SealedKeys};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use serde_json::{Value as Json, json};
use store::{
    DeleteRule, KindEntry, Options, Progress, Report, Store, Tx, Unreadable, decode, encode,
    index_code,
};
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

fn put<E: Entity>(tx: &Tx<'_>, id: &str, spec: Json, state: Json) -> model::error::Result<()> {
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

fn fill(tx: &Tx<'_>) -> model::error::Result<()> {
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
        model::entity::TypedLookup::get(tx, &Id::<Identity>::from_text("an-identity"))?;
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

fn fill_routers(tx: &Tx<'_>, issued: Issued<'_>) -> model::error::Result<()> {
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

fn fill_credentials(tx: &Tx<'_>, issued: Issued<'_>) -> model::error::Result<()> {
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
