//! One attempt to write the records of another controller: a transaction that stops at the first
//! record that breaks a rule. What happens with that record: `import_records.rs`.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use model::{
    entity::{Id, Identity, TypedLookup, enrollment::Method, identity::DEFAULT_AUTH_POLICY},
    error::Result,
};
use policy::change::{
    Change,
    imported::{self, ImportedState, Issuers},
};
use rest::{DeclaredKind, DeclaredKinds};
use serde_json::Value as Json;

use super::{
    network_file::draft_with_ids,
    source::{
        AUTHENTICATORS, ENROLLMENTS, ImportedCredentials, SourceKind, is, is_of_router, records_of,
        text,
    },
};

/// The member that names a credential or an enrollment in the report.
pub(super) const CREDENTIAL_OF: &str = "identityId";

/// The records that were listed, and what their creation also requires.
pub(super) struct Network {
    pub(super) kinds: Vec<SourceKind>,
    pub(super) credentials: ImportedCredentials,
    declared: DeclaredKinds,
    /// The user name of the administrator who reads the other controller, and the PHC string of the
    /// password.
    user: (String, String),
    /// The names of identities by id.
    names: HashMap<String, String>,
}

impl Network {
    pub(super) fn new(
        kinds: Vec<SourceKind>,
        credentials: ImportedCredentials,
        declared: DeclaredKinds,
        user: (String, String),
    ) -> Self {
        let names = records_of(&kinds, "identities")
            .map(|record| {
                (
                    text(record, "id").to_owned(),
                    text(record, "name").to_owned(),
                )
            })
            .collect();
        Self {
            kinds,
            credentials,
            declared,
            user,
            names,
        }
    }
}

/// The result of importing the records.
#[derive(Debug, Default, Clone)]
pub(super) struct ImportSummary {
    /// The number of records by kind.
    pub counts: Vec<(String, usize)>,
    pub certificates: usize,
    /// Who has a new enrollment, with its method.
    pub enrolled: Vec<String>,
    /// Routers that must enroll again.
    pub routers: Vec<String>,
    /// Names of records that were left out, with the reason.
    pub left_out: Vec<String>,
}

/// The kind and the id of a record.
pub(super) type RecordKey = (String, String);

/// One attempt to write the records, as a transaction.
pub(super) struct ImportJob {
    pub(super) network: Arc<Network>,
    pub(super) left_out: BTreeSet<RecordKey>,
    /// The record that is being written, and its name, for the error if it breaks a rule.
    pub(super) at: Arc<Mutex<Option<(RecordKey, String)>>>,
    pub(super) shipped: Arc<Vec<String>>,
}

impl ImportJob {
    pub(super) fn run(&self, change: &Change<'_, '_>) -> Result<ImportSummary> {
        let mut imported = ImportSummary::default();
        // The identity of a router is created with the router, and routers refer to nothing: so
        // routers come first.
        let (free, referring): (Vec<_>, Vec<_>) = self
            .network
            .declared
            .all()
            .iter()
            .partition(|one| one.references.is_empty());
        for one in free.into_iter().chain(referring) {
            let Some(kind) = self
                .network
                .kinds
                .iter()
                .find(|kind| kind.path == one.kind.path)
            else {
                continue;
            };
            let mut count = 0;
            for record in &kind.records {
                if self.begin(kind.path, record, "name") {
                    count += usize::from(self.put(change, one, kind, record, &mut imported)?);
                }
            }
            imported.counts.push((kind.path.to_owned(), count));
        }
        self.tunnelers(change)?;
        self.states(change)?;
        self.authenticators(change, &mut imported)?;
        self.enrollments(change, &mut imported)?;
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(imported)
    }

    /// Notes the record that is written next. `false` if the record is left out.
    fn begin(&self, kind: &str, record: &Json, named: &str) -> bool {
        let place = (kind.to_owned(), text(record, "id").to_owned());
        let is_wanted = !self.left_out.contains(&place);
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((place, text(record, named).to_owned()));
        is_wanted
    }

    fn name_of<'n>(&'n self, identity: &'n str) -> &'n str {
        self.network
            .names
            .get(identity)
            .map_or(identity, String::as_str)
    }

    /// Creates a record. `false` if the record is not created here, because another record or the
    /// release brings it.
    fn put(
        &self,
        change: &Change<'_, '_>,
        of: &DeclaredKind,
        kind: &SourceKind,
        record: &Json,
        imported: &mut ImportSummary,
    ) -> Result<bool> {
        let (id, name, path) = (text(record, "id"), text(record, "name"), kind.path);
        if is(record, "isSystem") || (path == "identities" && is_of_router(record)) {
            return Ok(false);
        }
        if path == "auth-policies" && id == DEFAULT_AUTH_POLICY {
            (of.replace)(change, id, (of.whole)(draft_with_ids(kind, record))?)?;
            return Ok(true);
        }
        if path == "config-types" && self.shipped.iter().any(|shipped| shipped == name) {
            if (of.name)(change.read(), id)?.is_some() {
                return Ok(false);
            }
            imported::make_way(change, name)?;
        }
        (of.create_as)(change, id, draft_with_ids(kind, record))?;
        match path {
            "edge-routers" | "transit-routers" => {
                let (fingerprint, pem) = (text(record, "fingerprint"), text(record, "certPem"));
                if imported::is_adopted(change)
                    && is(record, "isVerified")
                    && !fingerprint.is_empty()
                {
                    imported::router(
                        change,
                        id,
                        fingerprint,
                        Some(pem).filter(|pem| !pem.is_empty()),
                    )?;
                } else {
                    imported.routers.push(name.to_owned());
                }
            }
            "cas" if is(record, "isVerified") => imported::verified_ca(change, id)?,
            _ => {}
        }
        Ok(true)
    }

    /// Writes the members that an administrator set in the identities of routers.
    fn tunnelers(&self, change: &Change<'_, '_>) -> Result<()> {
        let Some(of) = self
            .network
            .declared
            .all()
            .iter()
            .find(|one| one.kind.path == "identities")
        else {
            return Ok(());
        };
        for kind in self
            .network
            .kinds
            .iter()
            .filter(|kind| kind.path == "identities")
        {
            for record in kind.records.iter().filter(|record| is_of_router(record)) {
                let id = text(record, "id");
                if self.begin("identities", record, "name")
                    && (of.name)(change.read(), id)?.is_some()
                {
                    (of.replace)(change, id, (of.whole)(draft_with_ids(kind, record))?)?;
                }
            }
        }
        Ok(())
    }

    fn states(&self, change: &Change<'_, '_>) -> Result<()> {
        for record in records_of(&self.network.kinds, "identities") {
            let id = text(record, "id");
            // The identity of a router is there if the router has a tunneler.
            let is_there =
                !is_of_router(record) || change.find(&Id::<Identity>::from_text(id))?.is_some();
            if !self.begin("identities", record, "name") || !is_there {
                continue;
            }
            let overrides = self.network.credentials.overrides.get(id).cloned();
            let state = ImportedState {
                is_default_admin: is(record, "isDefaultAdmin"),
                is_disabled: is(record, "disabled"),
                disabled_until: text(record, "disabledUntil").parse().ok(),
                overrides: overrides.unwrap_or_default(),
            };
            imported::identity(change, id, state)?;
        }
        Ok(())
    }

    fn authenticators(&self, change: &Change<'_, '_>, imported: &mut ImportSummary) -> Result<()> {
        let (user, password) = &self.network.user;
        let issuers = Issuers::read(change)?;
        for record in &self.network.credentials.authenticators {
            let (id, identity, username) = (
                text(record, "id"),
                text(record, "identityId"),
                text(record, "username"),
            );
            let is_lost = self
                .left_out
                .contains(&("identities".to_owned(), identity.to_owned()));
            if is_lost || !self.begin(AUTHENTICATORS, record, CREDENTIAL_OF) {
                continue;
            }
            let name = self.name_of(identity);
            match text(record, "method") {
                "updb" if username == user => {
                    imported::password(change, id, identity, username, password)?
                }
                "updb" => {
                    imported::enroll(change, identity, Method::Updb, None, Some(username))?;
                    imported
                        .enrolled
                        .push(format!("{name} (password, user name {username})"));
                }
                "cert"
                    if imported::certificate(
                        change,
                        &issuers,
                        id,
                        identity,
                        text(record, "fingerprint"),
                        text(record, "certPem"),
                    )? =>
                {
                    imported.certificates += 1;
                }
                "cert" => {
                    imported::enroll(change, identity, Method::Ott, None, None)?;
                    imported.enrolled.push(format!("{name} (certificate)"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn enrollments(&self, change: &Change<'_, '_>, imported: &mut ImportSummary) -> Result<()> {
        for record in &self.network.credentials.enrollments {
            let (identity, ca, username) = (
                text(record, "identityId"),
                text(record, "caId"),
                text(record, "username"),
            );
            let is_lost = self
                .left_out
                .contains(&("identities".to_owned(), identity.to_owned()));
            let is_over = text(record, "expiresAt")
                .parse()
                .is_ok_and(|end: model::clock::Timestamp| end < change.now());
            if identity.is_empty()
                || is_lost
                || is_over
                || !self.begin(ENROLLMENTS, record, CREDENTIAL_OF)
            {
                continue;
            }
            let method = match text(record, "method") {
                "ott" => Method::Ott,
                "ottca" => Method::OttCa,
                "updb" => Method::Updb,
                _ => continue,
            };
            let given = |value| Some(value).filter(|value: &&str| !value.is_empty());
            imported::enroll(change, identity, method, given(ca), given(username))?;
            imported
                .enrolled
                .push(format!("{} ({})", self.name_of(identity), method.as_str()));
        }
        Ok(())
    }
}
