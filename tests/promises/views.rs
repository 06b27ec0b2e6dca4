//! A filter or an order reveals nothing that the list itself does not show: in every list, for
//! every caller, each name in use is either rejected or has a member in the answer.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use crate::{
    harness::{Authority, Base, Caller, Key, TestServer, encoded, interface},
    lists::Corpus,
};

/// Members whose name differs from the name in filters.
const MEMBERS: [(&str, &str); 16] = [
    ("sessions service", "serviceId"),
    ("sessions apiSession", "apiSessionId"),
    ("sessions type", "type"),
    ("identities type", "typeId"),
    ("configs type", "configTypeId"),
    ("terminators instanceId", "identity"),
    ("terminators service", "serviceId"),
    ("terminators router", "routerId"),
    ("edge-routers connected", "isOnline"),
    ("edge-routers online", "isOnline"),
    ("authenticators certFingerprint", "fingerprint"),
    ("authenticators updbUsername", "username"),
    ("api-sessions authenticator", "authenticatorId"),
    ("enrollments identity", "identityId"),
    ("enrollments edgeRouter", "edgeRouterId"),
    ("enrollments transitRouter", "transitRouterId"),
];

/// Names that only administrators may use although these lists do not show them: the recorded lists
/// accept them, and administrators see the members elsewhere.
const ADMINISTRATORS: [&str; 7] = [
    "terminators hostId",
    "posture-checks promptOnUnlock",
    "posture-checks promptOnWake",
    "routers fingerprint",
    "transit-routers fingerprint",
    "edge-routers fingerprint",
    "cas verificationToken",
];

/// Names that `filterableFields` of no list contains.
const NEVER_FILTERABLE: [&str; 4] = ["hasApiSession", "key", "verification", "password"];

/// Orders on members that the list does not show, as recorded.
const ORDERS: [&str; 1] = ["terminators address"];

/// One list as one caller gets it.
struct List<'c> {
    caller: &'c Caller,
    is_admin: bool,
    path: String,
    /// The names in its `filterableFields`.
    filterable: BTreeSet<String>,
    /// The last part of its path.
    of: String,
    rows: Vec<Json>,
    /// The names of members in its rows, with dots.
    shown: BTreeSet<String>,
    /// The documented answer, for a list without rows.
    described: Json,
}

impl<'c> List<'c> {
    /// `None` if the caller gets no such list.
    fn of(caller: &'c Caller, is_admin: bool, row: &str, id: &str) -> Option<Self> {
        let path = row.replace("{id}", id);
        let answer = caller.get(&format!("{path}?limit=-1"));
        let data = answer.data().get("edgeRouters").unwrap_or(answer.data());
        let rows = data.as_array().filter(|_| answer.status == 200)?.clone();
        let mut shown = BTreeSet::new();
        rows.iter().for_each(|row| members(row, "", &mut shown));
        let described =
            interface(caller.base).document["paths"][row]["get"]["responses"]["200"].clone();
        let of = row.rsplit('/').next().unwrap().to_owned();
        let filterable = answer.json["meta"]["filterableFields"]
            .as_array()
            .into_iter()
            .flatten();
        let filterable = filterable
            .map(|name| name.as_str().unwrap().to_owned())
            .filter(|name| name != "tags")
            .collect();
        Some(Self {
            caller,
            is_admin,
            path,
            filterable,
            of,
            rows,
            shown,
            described,
        })
    }

    fn total(&self, filter: &str) -> Option<usize> {
        let answer = self.caller.get(&format!(
            "{}?limit=-1&filter={}",
            self.path,
            encoded(filter)
        ));
        match answer.status {
            200 => Some(
                answer
                    .data()
                    .get("edgeRouters")
                    .unwrap_or(answer.data())
                    .as_array()
                    .unwrap()
                    .len(),
            ),
            _ => {
                assert_eq!(
                    (answer.status, answer.code()),
                    (400, "INVALID_FILTER"),
                    "{}",
                    answer.text
                );
                None
            }
        }
    }

    fn filters(&self, name: &str) -> bool {
        self.total(&format!("{name} = null")).is_some()
            || self.total(&format!("isEmpty({name})")).is_some()
    }

    fn orders(&self, name: &str) -> bool {
        let answer = self
            .caller
            .get(&format!("{}?limit=1&sort={name}", self.path));
        let inside = self.total(&format!("true sort by {name}")).is_some();
        // Lists of role attributes ignore the order.
        inside || (answer.status == 200 && !self.of.ends_with("role-attributes"))
    }

    /// Whether a member of this name is in the answer.
    fn shows(&self, name: &str) -> bool {
        let known = format!("{} {name}", self.of);
        let member = MEMBERS
            .iter()
            .find(|(of, _)| *of == known)
            .map_or(name, |(_, member)| member);
        // A documented member may be missing in the present rows; for administrators the document
        // is enough.
        let by_description = self.rows.is_empty() || self.is_admin;
        let is_there = |name: &str| {
            self.shown.contains(name)
                || (by_description && describes(&self.described, name, self.caller.base))
        };
        let found = is_there(name) || is_there(member);
        // A record may always be found by its id.
        found
            || name == "id"
            || (self.is_admin && (name == "isSystem" || ADMINISTRATORS.contains(&known.as_str())))
    }

    /// Names that are accepted and not shown.
    fn leaks(&self, names: &BTreeSet<String>) -> Vec<String> {
        let mut leaks = Vec::new();
        for name in names {
            let (filters, orders) = (self.filters(name), self.orders(name));
            let known = format!("{} {name}", self.of);
            let leaks_order = orders && !ORDERS.contains(&known.as_str());
            if (filters || leaks_order) && !self.shows(name) {
                leaks.push(format!("{:?} {}: {name}", self.caller.base, self.path));
            }
        }
        // A filter on tags finds exactly the rows that show them, or is rejected.
        let tagged = self
            .rows
            .iter()
            .filter(|row| row.pointer("/tags/colour").is_some())
            .count();
        if self
            .total("tags.colour != null")
            .is_some_and(|found| found != tagged)
        {
            leaks.push(format!("{:?} {}: tags", self.caller.base, self.path));
        }
        leaks.extend((!self.is_admin).then(|| self.reveals_others()).flatten());
        leaks
    }

    /// A filter over records that the list only names.
    fn reveals_others(&self) -> Option<String> {
        let sets = ["configs", "roleAttributes", "service", "identity"];
        let filterable = sets.into_iter().find(|set| {
            self.total(&format!("isEmpty(from {set} where name = \"x\")"))
                .is_some()
        })?;
        Some(format!(
            "{:?} {}: from {filterable}",
            self.caller.base, self.path
        ))
    }
}

fn members(row: &Json, before: &str, names: &mut BTreeSet<String>) {
    for (name, member) in row.as_object().into_iter().flatten() {
        names.insert(format!("{before}{name}"));
        members(member, &format!("{before}{name}."), names);
    }
}

/// Whether a documented answer contains a member anywhere.
fn describes(schema: &Json, member: &str, base: Base) -> bool {
    match schema {
        Json::Object(parts) => {
            parts
                .iter()
                .any(|(name, part)| match (name.as_str(), part.as_str()) {
                    ("$ref", Some(place)) => describes(
                        interface(base)
                            .document
                            .pointer(place.trim_start_matches('#'))
                            .unwrap(),
                        member,
                        base,
                    ),
                    _ => {
                        (name == "properties" && part.get(member).is_some())
                            || describes(part, member, base)
                    }
                })
        }
        Json::Array(parts) => parts.iter().any(|part| describes(part, member, base)),
        _ => false,
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
