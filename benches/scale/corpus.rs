//! A model of a given size, written directly into a data file.
//!
//! Role attributes are distributed as in large networks: eight attributes with different shares;
//! policies with `AnyOf` over one to three of them; one identity that is in every policy.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Instant,
};

use model::{
    clock::Timestamp,
    config::{self, Config},
    entity::{
        Authenticator, Credential, EdgeRouter, EdgeRouterPolicy, Id, Identity, Lookup, PolicyType,
        PostureCheck, PostureRequirement, Record, Roles, Semantic, Service,
        ServiceEdgeRouterPolicy, ServicePolicy,
    },
};
use pki::{AlternativeNames, Csr, Validity};
use policy::{
    authentication::Passwords,
    change::{self, Administrator, Certificates, KINDS, Lifecycle, SealedKeys},
};
use store::{Store, encode};

use super::{client::Credentials, dice::Dice, stores};

/// The number of records in one transaction.
const BATCH: usize = 10_000;
/// The number of identities that log in with a certificate, and of those with a password.
const HOLDERS: usize = 500;
/// scrypt's lowest cost, because the time of a password hash is not measured here.
const COST: u8 = 10;
pub const PASSWORD: &str = "measured";
/// The domain that posture checks require.
pub const DOMAIN: &str = "corp";

/// The size of a model.
#[derive(Clone, Copy)]
pub struct Size {
    pub name: &'static str,
    pub identities: usize,
    pub services: usize,
    pub service_policies: usize,
    pub edge_routers: usize,
    /// Half of them about identities, half about services.
    pub router_policies: usize,
}

pub const NONE: Size = Size {
    name: "none",
    identities: 0,
    services: 0,
    service_policies: 0,
    edge_routers: 0,
    router_policies: 0,
};
pub const S: Size = Size {
    name: "S",
    identities: 1_000,
    services: 100,
    service_policies: 20,
    edge_routers: 5,
    router_policies: 8,
};
pub const M: Size = Size {
    name: "M",
    identities: 10_000,
    services: 1_000,
    service_policies: 100,
    edge_routers: 50,
    router_policies: 40,
};
pub const L: Size = Size {
    name: "L",
    identities: 100_000,
    services: 10_000,
    service_policies: 1_000,
    edge_routers: 500,
    router_policies: 350,
};
pub const XL: Size = Size {
    name: "XL",
    identities: 1_000_000,
    ..L
};

/// The share of service policies that require a posture check.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// None, and there is no check.
    Nobody,
    OneInFour,
    Everybody,
}

/// A model in a file, and what a bench needs to know of it.
pub struct Corpus {
    pub size: Size,
    pub file: PathBuf,
    pub seconds: f64,
    /// The sum of the encoded records in bytes.
    pub record_bytes: u64,
    /// The names of identities that log in with a password.
    pub users: Vec<String>,
    /// The identity that is in every policy; it has a certificate and a password.
    pub everywhere: String,
    /// The certificates of identities, first that of the identity in every policy.
    pub credentials: Vec<Credentials>,
    pub services: Vec<String>,
    /// A policy over all identities and a tenth of the services.
    pub policy: String,
}

/// The name of an identity by its number.
pub fn identity(n: usize) -> String {
    format!("identity-{n:07}")
}

/// Writes a model into a new file in a directory.
pub fn build(directory: &Path, size: Size, asking: Asking) -> Corpus {
    let start = Instant::now();
    std::fs::create_dir_all(directory).expect("a directory");
    let file = directory.join("data");
    let store = stores::start(&file, KINDS);
    let settings = config::PasswordConfig {
        cost: COST,
        ..Config::default().passwords
    };
    let password = Passwords::new(&settings)
        .and_then(|passwords| passwords.hash_now(PASSWORD))
        .expect("a hash");
    let hosts = AlternativeNames::of_hosts(["127.0.0.1", "localhost", "::1"]);
    let administrator = Administrator {
        username: "admin".into(),
        password: password.clone(),
        is_unseen: false,
    };
    let passwords = change::PasswordRules::of(&settings);
    let filling = change::NewFile {
        hosts,
        administrator: Some(administrator),
        router: false,
        passwords,
    };
    change::first_start(&store, &SealedKeys::default(), filling).expect("a controller");
    let mut build = Build {
        store: &store,
        dice: Dice::new(),
        now: Timestamp::from_millis(0),
        record_bytes: 0,
    };
    build.now = store.read(|tx| Ok(tx.now())).expect("the time");
    let identities = build.many::<Identity>(size.identities, |dice, n| Identity {
        role_attributes: roles(dice.roles()),
        ..Identity::named(identity(n))
    });
    let services = build.many::<Service>(size.services, |dice, n| service(n, roles(dice.roles())));
    build.many::<EdgeRouter>(size.edge_routers, |dice, n| {
        edge_router(n, roles(dice.roles()))
    });
    let everywhere = identities.first().cloned().unwrap_or_default();
    let checks = build.checks(size, asking);
    let asked = |n| asking.of(&checks, n);
    build.policies(size, &everywhere, asked);
    let policy = build
        .many::<ServicePolicy>(size.identities.min(1), |_, _| {
            everybody(asked(size.service_policies))
        })
        .pop();
    let policy = policy.unwrap_or_default();
    let credentials = build.certificates(&identities);
    let users = build.passwords(&identities, &password);
    let record_bytes = build.record_bytes;
    store.close();
    let seconds = start.elapsed().as_secs_f64();
    Corpus {
        size,
        file,
        seconds,
        record_bytes,
        users,
        everywhere,
        credentials,
        services,
        policy,
    }
}

impl Asking {
    /// The check that a policy requires, by the number of the policy. One per policy, because the
    /// service list repeats each check for each policy.
    fn of(self, checks: &[String], n: usize) -> Roles {
        let every = if self == Self::OneInFour { 4 } else { 1 };
        let asks = self != Self::Nobody && n.is_multiple_of(every);
        asks.then(|| format!("@{}", checks[n / every % checks.len()]))
            .into_iter()
            .collect()
    }
}

struct Build<'b> {
    store: &'b Store,
    dice: Dice,
    now: Timestamp,
    record_bytes: u64,
}

impl Build<'_> {
    /// Writes `count` records of a kind and returns their ids.
    fn many<E: Lifecycle>(
        &mut self,
        count: usize,
        mut make: impl FnMut(&mut Dice, usize) -> E,
    ) -> Vec<String> {
        let mut ids = Vec::with_capacity(count);
        for first in (0..count).step_by(BATCH) {
            // Ids contain the time in milliseconds; with thousands per millisecond two may be
            // equal.
            let mut fresh = BTreeSet::new();
            while fresh.len() < BATCH.min(count - first) {
                fresh.insert(E::new_id());
            }
            ids.extend(fresh.iter().cloned());
            let record =
                |(n, id)| Record::new(Id::from_text(id), self.now, make(&mut self.dice, n));
            let records: Vec<Record<E>> = (first..).zip(fresh).map(record).collect();
            self.record_bytes += records
                .iter()
                .map(|record| encode(record).expect("bytes").len() as u64)
                .sum::<u64>();
            self.store
                .write_blocking(move |tx| {
                    records.into_iter().try_for_each(|record| tx.insert(record))
                })
                .expect("a batch");
        }
        ids
    }

    /// Posture checks, one per hundred services, with attributes like the others; the model is
    /// otherwise the same as without them.
    fn checks(&mut self, size: Size, asking: Asking) -> Vec<String> {
        let mut dice = Dice::new();
        let count = if asking == Asking::Nobody {
            0
        } else {
            (size.services / 100).max(2)
        };
        self.many(count, |_, n| PostureCheck {
            name: format!("posture-check-{n:03}"),
            role_attributes: roles(dice.roles()),
            demand: PostureRequirement::Domain {
                domains: vec![DOMAIN.into()],
            },
        })
    }

    /// `asked` gives the posture checks that a service policy requires, by its number.
    fn policies(&mut self, size: Size, everywhere: &str, asked: impl Fn(usize) -> Roles) {
        let with = |mut roles: Roles| {
            roles.extend([format!("@{everywhere}")]);
            roles
        };
        self.many(size.service_policies, |dice, n| ServicePolicy {
            name: format!("service-policy-{n:04}"),
            policy_type: PolicyType::Dial,
            semantic: Semantic::AnyOf,
            identity_roles: with(roles(dice.list())),
            service_roles: roles(dice.list()),
            posture_check_roles: asked(n),
        });
        self.many(size.router_policies / 2, |dice, n| EdgeRouterPolicy {
            name: format!("edge-router-policy-{n:03}"),
            semantic: Semantic::AnyOf,
            edge_router_roles: roles(dice.list()),
            identity_roles: with(roles(dice.list())),
        });
        self.many(size.router_policies / 2, |dice, n| {
            ServiceEdgeRouterPolicy {
                name: format!("service-edge-router-policy-{n:03}"),
                semantic: Semantic::AnyOf,
                edge_router_roles: roles(dice.list()),
                service_roles: roles(dice.list()),
            }
        });
    }

    /// Certificates of the controller's authority for the first identities, all with one key.
    fn certificates(&mut self, identities: &[String]) -> Vec<Credentials> {
        let certificates =
            Certificates::open(self.store, &SealedKeys::default(), Vec::new(), None).expect("keys");
        let authority = certificates.keystore().authority();
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key");
        let request = rcgen::CertificateParams::default()
            .serialize_request(&key)
            .and_then(|request| request.pem())
            .expect("a request");
        let csr = Csr::parse(&request).expect("a request");
        let validity = Validity::years(1, self.now.seconds());
        let issue = |identity: &String| {
            let csr = csr.clone().with_common_name(identity).expect("a name");
            authority
                .issue_client(&csr, &AlternativeNames::default(), validity)
                .expect("a certificate")
        };
        let holders: Vec<_> = identities
            .iter()
            .take(HOLDERS)
            .map(|identity| (identity, issue(identity)))
            .collect();
        self.many(holders.len(), |_, n| Authenticator {
            identity_id: Id::from_text(holders[n].0.as_str()),
            credential: Credential::certificate(&holders[n].1),
        });
        holders
            .iter()
            .map(|(_, certificate)| {
                Credentials::new(certificate.der().to_vec(), key.serialize_der())
            })
            .collect()
    }

    /// Passwords for as many identities, from the end of the list, and for the one in every policy.
    fn passwords(&mut self, identities: &[String], hash: &str) -> Vec<String> {
        let holders: Vec<usize> = (0..identities.len().min(1))
            .chain((1..identities.len()).rev().take(HOLDERS))
            .collect();
        self.many(holders.len(), |_, n| Authenticator {
            identity_id: Id::from_text(identities[holders[n]].as_str()),
            credential: Credential::Updb {
                username: identity(holders[n]),
                password: hash.into(),
            },
        });
        holders.into_iter().map(identity).collect()
    }
}

fn service(n: usize, role_attributes: Roles) -> Service {
    Service {
        name: format!("service-{n:05}"),
        encryption_required: true,
        terminator_strategy: "smartrouting".into(),
        max_idle_time_millis: 0,
        role_attributes,
        configs: Vec::new(),
    }
}

fn edge_router(n: usize, role_attributes: Roles) -> EdgeRouter {
    EdgeRouter {
        name: format!("edge-router-{n:03}"),
        app_data: model::entity::Document::default(),
        cost: 0,
        disabled: false,
        is_tunneler_enabled: false,
        no_traversal: false,
        role_attributes,
    }
}

fn everybody(posture_check_roles: Roles) -> ServicePolicy {
    ServicePolicy {
        name: "everybody".into(),
        policy_type: PolicyType::Dial,
        semantic: Semantic::AnyOf,
        identity_roles: Roles::from_iter(["#all".to_owned()]),
        service_roles: Roles::from_iter(["#role7".to_owned()]),
        posture_check_roles,
    }
}

fn roles(of: Vec<String>) -> Roles {
    of.into_iter().collect()
}
