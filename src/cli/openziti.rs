//! The network as a file for `ziti ops import` of OpenZiti, for moving from this controller to
//! OpenZiti.

use model::entity::EdgeRouter;
use rest::Interfaces;
use serde_json::{Map, Value as Json, json};

use super::{
    api::{output, transport::Transport},
    failure::{CommandError, CommandResult},
    import::{
        network_file::{names_line, network},
        source::{self, is, is_given, records_of, text},
    },
};
use crate::admin_socket::Outcome;

/// The kinds of network files, and their names in the other file.
const KINDS: [(&str, &str); 12] = [
    ("cas", "certificateAuthorities"),
    ("identities", "identities"),
    ("edge-routers", "edgeRouters"),
    ("services", "services"),
    ("configs", "configs"),
    ("config-types", "configTypes"),
    ("service-policies", "servicePolicies"),
    ("edge-router-policies", "edgeRouterPolicies"),
    ("service-edge-router-policies", "serviceEdgeRouterPolicies"),
    ("external-jwt-signers", "externalJwtSigners"),
    ("auth-policies", "authPolicies"),
    ("posture-checks", "postureChecks"),
];
/// Members with keys that the other program does not translate from names.
const BY_SERVICE: [&str; 2] = ["serviceHostingCosts", "serviceHostingPrecedences"];
/// Lists that the other program expects even if they are empty.
const ROLES: &str = "roleAttributes";

/// The file in YAML, with what it lacks in comments at its beginning.
///
/// # Errors
/// One line: the controller does not answer.
pub(super) fn file(controller: &Transport) -> CommandResult {
    let declared = Interfaces::new().map_err(CommandError::of)?.declared();
    let (mut kinds, _) = source::records(controller, &declared)?;
    for kind in &mut kinds {
        kind.records
            .retain(|record| text(record, "id") != EdgeRouter::BUILT_IN);
    }
    let (mut report, all) = (Vec::new(), network(&kinds)?);
    let mut told =
        |what: &str, names: &[&str]| report.extend(names_line(&format!("# {what}"), names));
    let given = |path: &str| {
        records_of(&kinds, path)
            .filter(|record| !is_given(record))
            .map(|record| text(record, "name"))
            .collect::<Vec<_>>()
    };
    told("Identities to enroll again", &given("identities"));
    told("Edge routers to enroll again", &given("edge-routers"));
    told("CAs to verify again", &given("cas"));
    let disabled = records_of(&kinds, "identities").filter(|record| is(record, "disabled"));
    told(
        "Identities to disable again",
        &disabled
            .map(|record| text(record, "name"))
            .collect::<Vec<_>>(),
    );
    let built_in = Json::from(format!("@{}", EdgeRouter::BUILT_IN));
    let (mut unnamed, mut unopened, mut costs, mut file) =
        (Vec::new(), Vec::new(), Vec::new(), Map::new());
    for (path, named) in KINDS {
        let mut records = all
            .get(path)
            .and_then(Json::as_array)
            .cloned()
            .unwrap_or_default();
        for record in &mut records {
            costs.extend(convert(record).then(|| text(record, "name").to_owned()));
        }
        // The other network has no built-in router. A policy that names no other router allows
        // nothing there.
        records.retain_mut(|record| {
            let Some(Json::Array(roles)) = record.get_mut("edgeRouterRoles") else {
                return true;
            };
            let before = roles.len();
            roles.retain(|role| *role != built_in);
            let is_left_out = before > 0 && roles.is_empty();
            unopened.extend(is_left_out.then(|| text(record, "name").to_owned()));
            !is_left_out
        });
        // The other program accepts posture checks by role only. A policy without its posture
        // checks would allow more.
        records.retain(|record| {
            let roles = record
                .get("postureCheckRoles")
                .and_then(Json::as_array)
                .into_iter()
                .flatten();
            let is_left_out = roles
                .filter_map(Json::as_str)
                .any(|role| role.starts_with('@'));
            unnamed.extend(is_left_out.then(|| text(record, "name").to_owned()));
            !is_left_out
        });
        file.insert(named.into(), records.into());
    }
    report.extend(names_line(
        "# Left out, because they name posture checks: policies to create again",
        &unnamed,
    ));
    report.extend(names_line(
        "# Left out, because they name only the built-in router",
        &unopened,
    ));
    report.extend(names_line(
        "# Identities whose hosting costs and precedences for single services are left out",
        &costs,
    ));
    let left: Vec<&str> = all
        .keys()
        .map(String::as_str)
        .filter(|path| !KINDS.iter().any(|(kind, _)| kind == path))
        .collect();
    let left: Vec<&str> = left.into_iter().flat_map(given).collect();
    report.extend(names_line("# Records of other kinds, left out", &left));
    report.push("# Not in this file: ids, passwords, certificates, enrollments, sessions, terminators and the built-in router.".into());
    report.push("# ziti ops import FILE --input-format YAML takes it.".into());
    report.push(output::text(&Json::Object(file), "yaml", &[])?);
    Ok(Outcome::Done(report))
}

/// Writes references as the other program reads them: `@` and a name. Returns whether members were
/// left out.
fn convert(record: &mut Json) -> bool {
    let Some(members) = record.as_object_mut() else {
        return false;
    };
    for (member, other) in [
        ("configTypeId", "configType"),
        ("authPolicyId", "authPolicy"),
    ] {
        if let Some(name) = members.shift_remove(member) {
            members.insert(other.into(), at(&name));
        }
    }
    if members.contains_key("authPolicy") {
        members.entry(ROLES).or_insert_with(|| json!([]));
    }
    if let Some(Json::Array(configs)) = members.get_mut("configs") {
        for name in configs {
            *name = at(name);
        }
    }
    if let Some(Json::Array(signers)) = members
        .get_mut("primary")
        .and_then(|primary| primary.pointer_mut("/extJwt/allowedSigners"))
    {
        for name in signers {
            *name = at(name);
        }
    }
    if let Some(signer) = members
        .get_mut("secondary")
        .and_then(|secondary| secondary.get_mut("requireExtJwtSigner"))
        && signer.is_string()
    {
        *signer = at(signer);
    }
    let removed = BY_SERVICE.map(|member| members.shift_remove(member));
    removed
        .iter()
        .flatten()
        .any(|costs| costs.as_object().is_some_and(|costs| !costs.is_empty()))
}

fn at(name: &Json) -> Json {
    format!("@{}", name.as_str().unwrap_or_default()).into()
}
