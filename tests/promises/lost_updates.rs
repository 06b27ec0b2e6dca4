//! A write with `If-Match` never overwrites a version that its sender has not seen.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use model::{
    clock::Timestamp,
    config::Config,
    entity::{AmountLimit, Entity, Field, Id, Kind, Lookup, Record, Stateful, Tags, TypedLookup},
    error::Result,
};
use pki::{AlternativeNames, Keystore, Material};
use policy::change::{ChangeContext, Changes, Draft, Lifecycle};
use rest::{Header, Row};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value as Json, json};
use store::KindEntry;

use crate::{
    harness::{Answer, Base, Caller, Key, PASSWORD, fresh, interface, shared, stores},
    kinds::SAMPLES,
};

const WRITES: [&str; 3] = ["PUT", "PATCH", "DELETE"];

fn tag(answer: &Answer) -> String {
    assert!(
        answer.header("etag").starts_with('"'),
        "{}: no entity tag",
        answer.request
    );
    answer.header("etag").to_owned()
}

fn write(caller: &Caller, method: &str, path: &str, known: &str) -> Answer {
    caller
        .ask(method, path)
        .header("If-Match", known)
        .json(&json!({ "name": fresh("config-type") }))
        .send()
}

#[test]
fn if_match_refuses_outdated_writes() {
    let admin = &shared().admin;
    let id = admin
        .post("/config-types", json!({ "name": fresh("config-type") }))
        .expect(201)
        .id();
    let path = format!("/config-types/{id}");
    let first = tag(&admin.get(&path).expect(200));
    assert_eq!(
        first,
        tag(&admin.get(&path).expect(200)),
        "reading changes nothing"
    );

    write(admin, "PATCH", &path, &first).expect(200);
    let second = tag(&admin.get(&path).expect(200));
    assert_ne!(first, second);
    for method in WRITES {
        write(admin, method, &path, &first).refused(412, "PRECONDITION_FAILED", "");
    }
    for other in [
        format!("W/{second}"),
        second.trim_matches('"').to_owned(),
        String::new(),
        "\u{e9}".to_owned(),
    ] {
        write(admin, "PATCH", &path, &other).refused(412, "PRECONDITION_FAILED", "");
    }
    assert_eq!(
        second,
        tag(&admin.get(&path).expect(200)),
        "a refused write leaves the record"
    );

    write(admin, "PUT", &path, &format!("\"other\", {second}")).expect(200);
    write(admin, "PATCH", &path, "*").expect(200);
    write(admin, "PATCH", "/config-types/none", "*").refused(404, "NOT_FOUND", "");
    let now = tag(&admin.get(&path).expect(200));
    let in_lines = admin
        .ask("PATCH", &path)
        .header("If-Match", "\"other\"")
        .header("If-Match", &now);
    in_lines
        .json(&json!({ "tags": { "a": 1 } }))
        .send()
        .expect(200);
    let now = tag(&admin.get(&path).expect(200));
    admin
        .ask("DELETE", &path)
        .header("If-Match", &now)
        .send()
        .expect(200);
}

#[test]
fn if_match_is_optional() {
    let admin = &shared().admin;
    let id = admin
        .post("/config-types", json!({ "name": fresh("config-type") }))
        .expect(201)
        .id();
    admin
        .patch(
            &format!("/config-types/{id}"),
            json!({ "tags": { "a": 1 } }),
        )
        .expect(200);
    admin.delete(&format!("/config-types/{id}")).expect(200);
}

#[test]
fn writable_records_have_entity_tags() {
    // A circuit and a link are not records: they cannot be written, so that they have no version to
    // compare.
    let is_record = |row: &Row| !["/circuits/{id}", "/links/{id}"].contains(&row.path.as_str());
    let accepts_tag = |row: &Row| {
        row.operation
            .parameters
            .iter()
            .any(|parameter| parameter.name == "If-Match")
    };
    for base in Base::ALL {
        let writes = |row: &&Row| {
            WRITES.contains(&row.method) && row.path.ends_with("/{id}") && is_record(row)
        };
        for row in interface(base).rows().filter(writes) {
            assert!(
                accepts_tag(row),
                "{} {} does not accept If-Match",
                row.method,
                row.path
            );
            let shown = interface(base)
                .rows()
                .find(|other| other.method == "GET" && other.path == row.path);
            let tagged = shown
                .and_then(|shown| shown.operation.answer.as_ref())
                .is_some_and(|answer| answer.headers.contains(&Header::Tag));
            assert!(tagged, "GET {} answers no tag", row.path);
        }
    }
}

/// Sends each of these writes with an outdated tag, then with the current one; a DELETE comes last.
fn checks_tag(caller: &Caller, path: &str, body: &Json, methods: &[&str]) {
    let known = tag(&caller.get(path).expect(200));
    for method in methods {
        let stale = caller.ask(method, path).header("If-Match", "\"0-0\"");
        let stale = if *method == "DELETE" {
            stale
        } else {
            stale.json(body)
        };
        stale.send().refused(412, "PRECONDITION_FAILED", "");
    }
    assert_eq!(
        known,
        tag(&caller.get(path).expect(200)),
        "{path}: a refused write leaves the record"
    );
    let mut last = known;
    if methods.contains(&"PATCH") {
        caller
            .ask("PATCH", path)
            .header("If-Match", &last)
            .json(body)
            .send()
            .expect(200);
        last = tag(&caller.get(path).expect(200));
    }
    if methods.contains(&"DELETE") {
        caller
            .ask("DELETE", path)
            .header("If-Match", &last)
            .send()
            .expect(200);
        caller.get(path).refused(404, "NOT_FOUND", "");
    }
}

#[test]
fn if_match_works_for_every_kind() {
    let admin = &shared().admin;
    for sample in SAMPLES {
        let mut body = (sample.body)(shared(), &fresh("held"));
        let id = admin
            .post(&format!("/{}", sample.path), body.clone())
            .expect(201)
            .id();
        body[sample.key] = fresh("held").into();
        checks_tag(admin, &format!("/{}/{id}", sample.path), &body, &WRITES);
    }
}

#[test]
fn if_match_works_for_own_records() {
    let (admin, name) = (&shared().admin, fresh("holder"));
    let (identity, user) = shared().user(&name, json!({}));
    let own = admin
        .list("/authenticators", &format!("identity = \"{identity}\""), "")
        .each("id")[0]
        .to_owned();
    let body = json!({ "username": name, "password": PASSWORD, "currentPassword": PASSWORD });
    checks_tag(
        &user,
        &format!("/current-identity/authenticators/{own}"),
        &body,
        &["PUT", "PATCH"],
    );
    checks_tag(
        admin,
        &format!("/authenticators/{own}"),
        &body,
        &["PUT", "PATCH"],
    );
    // A password set by an administrator ends the sessions of the previous one.
    let user = shared().log_in_again(&name);

    let service = shared().service(&fresh("held"), json!({}));
    shared().service_policy(
        "Dial",
        &[&format!("@{identity}")],
        &[&format!("@{service}")],
    );
    shared().router_between(&identity, &service);
    let client = user.at(Base::Client);
    let session = client
        .post("/sessions", json!({ "serviceId": service }))
        .expect(201)
        .id();
    checks_tag(
        &client,
        &format!("/sessions/{session}"),
        &Json::Null,
        &["DELETE"],
    );

    let path = "/current-api-session/certificates";
    let certificate = client
        .post(path, json!({ "csr": Key::new().request() }))
        .expect(201)
        .id();
    checks_tag(
        &client,
        &format!("{path}/{certificate}"),
        &Json::Null,
        &["DELETE"],
    );
}

/// A kind that counts how often one of its records is decoded.
#[derive(Clone, Serialize, JsonSchema)]
struct Counted {
    name: String,
}

static DECODED: AtomicUsize = AtomicUsize::new(0);
static COUNTED: &[KindEntry] = &[KindEntry::of::<Counted>()];

impl<'de> Deserialize<'de> for Counted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Plain {
            name: String,
        }
        DECODED.fetch_add(1, SeqCst);
        Plain::deserialize(deserializer).map(|Plain { name }| Self { name })
    }
}

impl Stateful for Counted {
    type State = ();
}

impl Entity for Counted {
    const KIND: Kind = Kind {
        name: "counted",
        path: "counted",
        noun: "counted record",
    };
    const FIELDS: &'static [Field<Self>] = &[Field::every("name", |r| (&r.spec.name).into())];
    type View = ();
    fn view(_: &Record<Self>, _: &dyn Lookup) -> Result<()> {
        Ok(())
    }
}

impl Lifecycle for Counted {}

#[test]
fn changes_decode_their_record_once() {
    let material = Material::generate(
        &AlternativeNames::of_hosts(["controller.test"]),
        1_700_000_000,
    )
    .unwrap();
    let context = ChangeContext {
        plain_key_sets: false,
        keystore: Arc::new(Keystore::open(material).unwrap()),
        address: "controller.test:1280".into(),
        identity_enrollment: Duration::from_secs(60),
        router_enrollment: Duration::from_secs(60),
        members: AmountLimit::of(&Config::default().members),
        client_members: AmountLimit::of_clients(&Config::default().members),
    };
    let store = stores::of(COUNTED).in_memory();
    let changes = Changes::new(store.clone(), context);
    let id = Id::from_text("one");
    let first = Record::new(
        id.clone(),
        Timestamp::from_millis(1),
        Counted {
            name: "before".into(),
        },
    );
    changes
        .run_blocking(move |change| change.insert(first))
        .unwrap();
    let renamed = |_: &Draft<Counted>| {
        Ok(Some(Draft {
            tags: Tags::default(),
            spec: Counted {
                name: "after".into(),
            },
        }))
    };

    DECODED.store(0, SeqCst);
    let edited = id.clone();
    changes
        .run_blocking(move |change| {
            // The precondition looks at this record, the edit merges into it, and the index and the
            // history compare with it.
            let stored = change.get(&edited)?;
            change.edit_record(stored, renamed)
        })
        .unwrap();
    assert_eq!(DECODED.load(SeqCst), 1);
    let found = |name| {
        store
            .read(|tx| Ok(tx.find_by::<Counted>("name", name)?.map(|record| record.id)))
            .unwrap()
    };
    assert_eq!((found("before"), found("after")), (None, Some(id.clone())));

    DECODED.store(0, SeqCst);
    // The precondition looks at this record, and the index and the history lose it.
    changes
        .run_blocking(move |change| change.delete_record(change.get(&id)?))
        .unwrap();
    assert_eq!(DECODED.load(SeqCst), 1);
    assert_eq!(found("after"), None);
}
