//! The edge routers that identity and service have in common, and the obstacles if there are none.

use model::{
    entity::{
        EdgeRouter, EdgeRouterPolicy, Id, Lookup, ServiceEdgeRouterPolicy, TransitRouter,
        TypedLookup,
    },
    error::Result,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value as Json, json};
use store::Read;

use super::{
    case::{Case, NamedRecord},
    edits::free,
    obstacle::{Obstacle, ObstacleKind, SuggestedEdit},
};
use crate::access::{PolicyEntityKind, PolicyKind};

/// An edge router in common. A disabled one is included.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ExplainedRouter")]
pub(crate) struct CommonRouter {
    #[serde(flatten)]
    pub(crate) router: NamedRecord,
    pub(crate) is_online: bool,
    /// Whether it is disabled. Sessions list it all the same.
    pub(crate) is_disabled: bool,
}

/// An edge router in common; `None` if it was deleted meanwhile.
///
/// # Errors
/// [`Error::Storage`](model::error::Error::Storage) if it cannot be read.
pub(crate) fn in_common(tx: &Read<'_>, id: &str) -> Result<Option<CommonRouter>> {
    let found = tx.find::<EdgeRouter>(&Id::from_text(id))?;
    Ok(found.map(|router| CommonRouter {
        is_online: tx.router_info(id).is_some(),
        is_disabled: router.spec.disabled,
        router: NamedRecord::new(&router, &router.spec.name),
    }))
}

/// The edge routers that policies give to the identity or the service.
struct Reach {
    /// The existing edge routers, as `@id`.
    routers: Vec<String>,
    /// Whether it also includes every future router.
    everywhere: bool,
}

impl Reach {
    fn of(case: &Case<'_>, kind: PolicyKind, from: PolicyEntityKind, id: &str) -> Self {
        case.access.ask(|engine| {
            let routers = engine.related(kind, from, id, PolicyEntityKind::EdgeRouter);
            let routers = routers.in_order().map(|(_, id)| format!("@{id}")).collect();
            Self {
                routers,
                everywhere: engine.reaches_everything(kind, from, id, PolicyEntityKind::EdgeRouter),
            }
        })
    }

    fn is_nowhere(&self) -> bool {
        self.routers.is_empty() && !self.everywhere
    }
}

/// The obstacles if identity and service have no edge router in common. If there is no router at
/// all, adding one is enough for a side whose policies include every router.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn missing(tx: &Read<'_>, case: &Case<'_>) -> Result<Vec<Obstacle>> {
    let (identity, service) = (&case.identity.spec.name, &case.service.spec.name);
    let of_identity = Reach::of(
        case,
        PolicyKind::EdgeRouter,
        PolicyEntityKind::Identity,
        case.identity.id.as_str(),
    );
    let of_service = Reach::of(
        case,
        PolicyKind::ServiceEdgeRouter,
        PolicyEntityKind::Service,
        case.service.id.as_str(),
    );
    let obstacle = |what, text, edit| Obstacle::new(what, text, vec![edit]);
    let mut obstacles = Vec::new();
    if tx.count::<EdgeRouter>()? == 0 {
        let edit = SuggestedEdit {
            method: "POST",
            path: "/edge-routers".into(),
            // No edge router has the name, and routers of the other kind may not have it either.
            body: json!({ "name": free::<TransitRouter>(tx, "edge-router".into())? }),
            text: "add an edge router".into(),
        };
        obstacles.push(obstacle(
            ObstacleKind::NoEdgeRouter,
            "there is no edge router".into(),
            edit,
        ));
    }
    if of_service.is_nowhere() {
        let text = format!("no policy lets {service} be reached over an edge router");
        obstacles.push(obstacle(
            ObstacleKind::ServiceWithoutRouter,
            text,
            for_service(tx, case)?,
        ));
    }
    if of_identity.is_nowhere() {
        let edit = for_identity(
            tx,
            case,
            json!(["#all"]),
            format!("let {identity} use every edge router"),
        )?;
        obstacles.push(obstacle(
            ObstacleKind::IdentityWithoutRouter,
            format!("no policy lets {identity} use an edge router"),
            edit,
        ));
    }
    if obstacles.is_empty() {
        let edit = for_identity(
            tx,
            case,
            json!(of_service.routers),
            format!("let {identity} use the edge routers of {service}"),
        )?;
        obstacles.push(obstacle(
            ObstacleKind::NoCommonRouter,
            format!("{identity} and {service} have no edge router in common"),
            edit,
        ));
    }
    Ok(obstacles)
}

fn for_service(tx: &Read<'_>, case: &Case<'_>) -> Result<SuggestedEdit> {
    let name = &case.service.spec.name;
    Ok(SuggestedEdit {
        method: "POST",
        path: "/service-edge-router-policies".into(),
        body: json!({
            "name": free::<ServiceEdgeRouterPolicy>(tx, format!("{name}-edge-routers"))?, "semantic": "AnyOf",
            "serviceRoles": [format!("@{}", case.service.id)], "edgeRouterRoles": ["#all"]
        }),
        text: format!("let {name} be reached over every edge router"),
    })
}

fn for_identity(
    tx: &Read<'_>,
    case: &Case<'_>,
    routers: Json,
    text: String,
) -> Result<SuggestedEdit> {
    let name = format!(
        "{}-edge-routers-of-{}",
        case.identity.spec.name, case.service.spec.name
    );
    Ok(SuggestedEdit {
        method: "POST",
        path: "/edge-router-policies".into(),
        body: json!({
            "name": free::<EdgeRouterPolicy>(tx, name)?, "semantic": "AnyOf",
            "identityRoles": [format!("@{}", case.identity.id)], "edgeRouterRoles": routers
        }),
        text,
    })
}
