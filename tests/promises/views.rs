//! A filter or an order reveals nothing that the list itself does not show: in every list, for
//! every caller, each name in use is either rejected or has a member in the answer.

mod list;

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use list::List;

use crate::{
    harness::{Authority, Base, Caller, Key, TestServer, encoded, interface},
    lists::Corpus,
};

/// Names that `filterableFields` of no list contains.
const NEVER_FILTERABLE: [&str; 4] = ["hasApiSession", "key", "verification", "password"];

fn members(row: &Json, before: &str, names: &mut BTreeSet<String>) {
    for (name, member) in row.as_object().into_iter().flatten() {
        names.insert(format!("{before}{name}"));
        members(member, &format!("{before}{name}."), names);
    }
}

/// The paths of all lists of an interface.
fn lists(base: Base) -> Vec<&'static str> {
    let is_list = |row: &&rest::Row| {
        row.method == "GET"
            && row
                .operation
                .parameters
                .iter()
                .any(|one| one.name == "filter")
    };
    interface(base)
        .rows()
        .filter(is_list)
        .map(|row| row.path.as_str())
        .collect()
}

/// A corpus in which every list of a caller who is not an administrator has rows, all with tags.
fn corpus() -> (Corpus, Caller) {
    let corpus = Corpus::new();
    let server = &corpus.server;
    server.enroll_router(corpus.id("near"));
    server
        .admin
        .delete(&format!("/posture-checks/{}", corpus.id("check")))
        .expect(200);
    let ann = server.log_in_again("ann-at-work");
    for service in ["web", "wiki"] {
        ann.post(
            "/sessions",
            json!({ "serviceId": corpus.id(service), "type": "Dial" }),
        )
        .expect(201);
    }
    ann.post(
        "/current-api-session/certificates",
        json!({ "csr": Key::new().request() }),
    )
    .expect(201);
    let signer = json!({
        "name": "signer", "enabled": true, "issuer": "https://idp.test", "audience": "overlay", "jwksEndpoint": "https://idp.test/keys"
    });
    server
        .admin
        .post("/external-jwt-signers", signer)
        .expect(201);
    let authority = Authority::new("of ann");
    server.add_ca(&authority);
    let certificate = json!({ "method": "cert", "identityId": corpus.id("ann"), "certPem": authority.issue("ann", &Key::new()) });
    server
        .admin
        .post("/authenticators", certificate)
        .expect(201);
    for list in [
        "services",
        "terminators",
        "edge-routers",
        "external-jwt-signers",
        "authenticators",
        "identities",
        "configs",
    ] {
        for id in server
            .admin
            .get(&format!("/{list}?limit=-1"))
            .expect(200)
            .each("id")
        {
            let tagged = server.admin.patch(
                &format!("/{list}/{id}"),
                json!({ "tags": { "colour": "red" } }),
            );
            // System records and certificates have no tags.
            assert!([200, 400, 409].contains(&tagged.status), "{}", tagged.text);
        }
    }
    (corpus, ann)
}

/// All names that any filter could use.
fn names(server: &TestServer) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = NEVER_FILTERABLE.map(str::to_owned).into();
    for path in lists(Base::Management)
        .into_iter()
        .filter(|path| !path.contains('{'))
    {
        let answer = server.admin.get(&format!("{path}?limit=-1")).expect(200);
        let filterable = answer.json["meta"]["filterableFields"]
            .as_array()
            .into_iter()
            .flatten();
        names.extend(
            filterable
                .map(|name| name.as_str().unwrap().to_owned())
                .filter(|name| name != "tags"),
        );
        answer
            .data()
            .as_array()
            .unwrap()
            .iter()
            .for_each(|row| members(row, "", &mut names));
    }
    names.retain(|name| {
        !name.contains(['_', '/', '-']) && !name.starts_with("tags") && !name.starts_with("data.")
    });
    names
}

/// The ids below which a list may be.
fn ids(corpus: &Corpus, path: &str) -> Vec<String> {
    let Some((parents, _)) = path.split_once("/{id}") else {
        return vec![String::new()];
    };
    corpus
        .server
        .admin
        .get(&format!("{parents}?limit=-1"))
        .expect(200)
        .each("id")
        .into_iter()
        .map(str::to_owned)
        .collect()
}

/// Checks every list of every interface for one caller, except the history and lists of open
/// connections, which are empty here. Returns the number of lists.
fn check_lists(
    corpus: &Corpus,
    caller: &Caller,
    is_admin: bool,
    names: &BTreeSet<String>,
) -> usize {
    let (mut leaks, mut checked) = (Vec::new(), 0);
    for base in Base::ALL {
        let caller = caller.at(base);
        for path in lists(base)
            .into_iter()
            .filter(|path| !["/history", "/circuits", "/channels", "/links"].contains(path))
        {
            let found = ids(corpus, path)
                .iter()
                .filter_map(|id| List::of(&caller, is_admin, path, id))
                .max_by_key(|list| list.rows.len());
            let Some(list) = found else { continue };
            // Administrators may learn of any name, except a few.
            let hidden = || {
                NEVER_FILTERABLE
                    .map(str::to_owned)
                    .into_iter()
                    .chain(list.filterable.iter().cloned())
            };
            leaks.extend(if is_admin {
                list.leaks(&hidden().collect())
            } else {
                list.leaks(names)
            });
            checked += 1;
        }
    }
    assert!(leaks.is_empty(), "{leaks:#?}");
    checked
}

#[test]
fn filters_reveal_no_hidden_members() {
    let (corpus, ann) = corpus();
    let names = names(&corpus.server);
    assert!(
        names.len() > 100
            && ["issuer", "address", "binding", "isVerified"]
                .iter()
                .all(|name| names.contains(*name))
    );
    // One list is public; users have theirs at both interfaces.
    assert_eq!(
        check_lists(&corpus, &corpus.server.anonymous(), false, &names),
        1
    );
    assert!(check_lists(&corpus, &ann, false, &names) >= 11);
}

#[test]
fn administrators_filter_by_what_they_see() {
    let (corpus, _) = corpus();
    let names = names(&corpus.server);
    assert!(check_lists(&corpus, &corpus.server.admin.clone(), true, &names) > 40);
}

#[test]
fn filters_of_known_programs_work() {
    let (corpus, ann) = corpus();
    let (web, near) = (corpus.id("web"), corpus.id("near"));
    let found = |caller: &Caller, path: &str, filter: &str| {
        caller
            .get(&format!("{path}?filter={}", encoded(filter)))
            .expect(200)
            .total()
    };
    assert_eq!(found(&ann, "/services", r#"name="web""#), 1);
    assert_eq!(
        found(
            &ann,
            "/services",
            r#"anyOf(roleAttributes) = "web" and tags.colour = "red" limit none"#
        ),
        2
    );
    assert_eq!(
        found(&ann, "/services", r#"not isEmpty(configs) sort by name"#),
        2
    );
    assert_eq!(
        found(
            &ann,
            &format!("/services/{web}/terminators"),
            r#"service.name = "web" sort by address desc"#
        ),
        2
    );
    assert_eq!(
        found(
            &ann,
            "/current-identity/edge-routers",
            &format!(r#"id = "{near}" and connected = false"#)
        ),
        1
    );
    assert_eq!(
        found(&ann, "/current-identity/authenticators", r#"method="updb""#),
        1
    );
    assert_eq!(
        found(
            &ann,
            "/sessions",
            &format!(r#"service = "{web}" and type = "Dial""#)
        ),
        1
    );
    assert_eq!(
        found(
            &corpus.server.anonymous(),
            "/external-jwt-signers",
            r#"name icontains "SIGN" sort by name"#
        ),
        1
    );
}

#[test]
fn identities_filter_by_session() {
    let (corpus, _ann) = corpus();
    let admin = &corpus.server.admin;
    let found = |filter: &str| {
        admin
            .get(&format!("/identities?filter={}", encoded(filter)))
            .expect(200)
            .each("name")
            .join(" ")
    };
    assert_eq!(found("hasApiSession=true and isAdmin=false"), "ann");
    assert!(!found("hasApiSession=false").contains("ann"));
}
