//! The network as one document: shows the present document, previews the changes that another
//! document makes, and applies that document.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use model::{
    entity::Named,
    error::{Error, Result},
};
use policy::{
    access::{AccessShare, Difference, PolicyEntityKind},
    change::Change,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use store::{Event, Read};

use crate::{
    answer::Data,
    body::Incoming,
    call::Call,
    change_mode::ChangeMode,
    extractor::{Extractor, IfMatch},
    network_document::{
        apply::{Applied, ObjectChange, RequestedNetwork, apply, tag},
        export::export,
        kinds::DeclaredKinds,
    },
    openapi::operation::Operation,
    preview::{MAX_LISTED, named},
};

/// The maximum number of deletions if the request does not set it.
const MAX_DELETIONS: u64 = 10;
/// At most this many subjects are ordered by name, of which the first are listed.
const MAX_ORDERED: usize = 1000;
/// The same for the pairs that violate an assertion.
const MAX_ORDERED_PAIRS: usize = 100;
/// The maximum number of pairs that an error names per broken assertion.
const MAX_PAIRS: usize = 3;

/// The options of deletion.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Options {
    /// `true`: deletes the objects that the document does not name, of the kinds that it lists.
    #[serde(default)]
    prune: Option<BooleanText>,
    /// The maximum number of deletions; if there would be more, nothing is changed. Default 10.
    #[serde(default)]
    max_deletions: Option<u32>,
    /// `accept`: accepts names with control characters, characters that change the direction of
    /// text, or characters without width, also with `strict`.
    #[serde(default)]
    #[expect(
        dead_code,
        reason = "it is described here and read with the body, in hidden_members.rs"
    )]
    hidden_characters: Option<HiddenCharacters>,
}

/// What happens to names with such characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum HiddenCharacters {
    Accept,
}

/// A boolean in a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BooleanText {
    True,
    False,
}

/// A network document. Its schema is generated from the kinds (`DeclaredKinds::schema`).
pub(crate) struct NetworkDocument(Map<String, Json>);

impl Extractor for NetworkDocument {
    fn describe(operation: &mut Operation) -> Result<()> {
        operation.json_body(
            "network",
            "Network".into(),
            serde_json::json!({ "type": "object" }),
        )
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        match incoming.json()? {
            Json::Object(network) => Ok(Self(network)),
            _ => Err(Error::Unparseable("a network must be a JSON object".into())),
        }
    }
}

/// The changes that a document makes.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "NetworkPlan")]
pub(crate) struct NetworkPlan {
    /// Identifies this plan. With it in `If-Match`, in quotation marks, the document is applied
    /// only if it still makes the same changes.
    tag: String,
    /// The objects that change, in the order of the changes.
    objects: Vec<ObjectChange>,
    #[serde(flatten)]
    access: Difference<Named>,
    /// Who gains and who loses each of the services and edge routers that the counts list first.
    shares: Vec<AccessShare<Named>>,
    /// The assertions that do not hold afterwards. A document with a broken assertion is not
    /// applied.
    broken: Vec<BrokenAssertion>,
}

/// An assertion that does not hold.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BrokenAssertion")]
pub(crate) struct BrokenAssertion {
    /// The text in the document.
    assertion: String,
    /// The number of pairs of an identity and a service that violate it.
    pairs: u64,
    /// The first pairs.
    first: Vec<BrokenPair>,
}

/// An identity that may use a service but must not, or must be allowed to but is not.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BrokenPair")]
pub(crate) struct BrokenPair {
    identity: Named,
    service: Named,
}

/// GET /network
pub(crate) async fn show(kinds: Arc<DeclaredKinds>, call: Call) -> Result<Data<Map<String, Json>>> {
    call.state
        .store
        .scan(move |read| export(&kinds, read))
        .await
        .map(Data)
}

/// PUT /network
pub(crate) async fn replace(
    kinds: Arc<DeclaredKinds>,
    call: Call,
    known: IfMatch,
    options: Options,
    NetworkDocument(network): NetworkDocument,
    mode: ChangeMode,
) -> Result<Data<NetworkPlan>> {
    let max_deletions = options.max_deletions.map_or(MAX_DELETIONS, u64::from);
    let wanted = Arc::new(RequestedNetwork {
        network,
        prune: options.prune == Some(BooleanText::True),
        max_deletions,
    });
    let plan = planned(&kinds, &call, &wanted).await?;
    if !known.names(&format!("\"{}\"", plan.tag)) {
        return Err(Error::Changed);
    }
    if mode == ChangeMode::Preview {
        return Ok(Data(plan));
    }
    Error::all(plan.broken.iter().map(|broken| Err(broken.refused())))?;
    if !plan.objects.is_empty() {
        let expected = plan.objects.clone();
        // Only records that the document names are read again. A concurrent change of another
        // record has the same effect as a later one.
        let change = move |change: &Change<'_, '_>| {
            let applied = apply(&kinds, change, &wanted)?;
            if applied.objects == expected {
                Ok(())
            } else {
                Err(Error::Changed)
            }
        };
        call.changes.run(change).await?;
    }
    Ok(Data(plan))
}

/// The changes that a document would make, found by a dry run.
async fn planned(
    kinds: &Arc<DeclaredKinds>,
    call: &Call,
    wanted: &Arc<RequestedNetwork>,
) -> Result<NetworkPlan> {
    let (access, kinds, wanted) = (call.state.access.clone(), kinds.clone(), wanted.clone());
    let job = move |change: &Change<'_, '_>| {
        Ok((
            tag(&kinds, change.read(), &wanted)?,
            apply(&kinds, change, &wanted)?,
        ))
    };
    let look = move |read: &Read<'_>, events: Vec<Event>, (tag, applied): (String, Applied)| {
        // A record that would be created has no id yet.
        let created: HashSet<&str> = events
            .iter()
            .filter(|event| event.old.is_none())
            .map(|event| event.id.as_str())
            .collect();
        let known: RefCell<HashMap<(PolicyEntityKind, String), String>> = RefCell::default();
        let text = |subject, id: &str| -> Result<String> {
            if let Some(name) = known.borrow().get(&(subject, id.to_owned())) {
                return Ok(name.clone());
            }
            let name = named(read, &events, subject, id)?.name;
            known
                .borrow_mut()
                .insert((subject, id.to_owned()), name.clone());
            Ok(name)
        };
        let name = |subject, id: &str| -> Result<Named> {
            Ok(Named {
                id: if created.contains(id) {
                    String::new()
                } else {
                    id.to_owned()
                },
                name: text(subject, id)?,
            })
        };
        let name_of = |subject, id: &str| name(subject, id).map(Some);
        let (difference, changes) =
            access.preview_changes(&events, MAX_ORDERED, |left| read.before(left))?;
        let difference = difference.by_name(MAX_LISTED, &text)?;
        let mut shares = Vec::new();
        for share in access.shares(&changes, &difference, MAX_ORDERED) {
            shares.extend(share.by_name(MAX_LISTED, &text)?.named(name_of)?);
        }
        let difference = difference.named(name_of)?;
        let (texts, assertions): (Vec<_>, Vec<_>) = applied.assertions.into_iter().unzip();
        let mut broken = Vec::new();
        for (assertion, violation) in
            texts
                .into_iter()
                .zip(access.violations(&events, &assertions, MAX_ORDERED_PAIRS))
        {
            let pair = |(identity, service): &(Arc<str>, Arc<str>)| {
                Ok(BrokenPair {
                    identity: name(PolicyEntityKind::Identity, identity)?,
                    service: name(PolicyEntityKind::Service, service)?,
                })
            };
            if violation.pairs > 0 {
                let mut first: Vec<BrokenPair> =
                    violation.first.iter().map(pair).collect::<Result<_>>()?;
                first.sort_by(|one, other| {
                    (&one.identity.name, &one.service.name)
                        .cmp(&(&other.identity.name, &other.service.name))
                });
                first.truncate(MAX_LISTED);
                broken.push(BrokenAssertion {
                    assertion,
                    pairs: violation.pairs,
                    first,
                });
            }
        }
        Ok(NetworkPlan {
            tag,
            objects: applied.objects,
            access: difference,
            shares,
            broken,
        })
    };
    call.changes.dry_run(job, look).await
}

impl BrokenAssertion {
    fn refused(&self) -> Error {
        let pairs = self
            .first
            .iter()
            .take(MAX_PAIRS)
            .map(|pair| format!("{} and {}", pair.identity.name, pair.service.name));
        let pairs = pairs.collect::<Vec<_>>().join(", ");
        Error::invalid(
            "assertions",
            format!(
                "does not hold for {} identities and services: {pairs}",
                self.pairs
            ),
            &self.assertion,
        )
    }
}
