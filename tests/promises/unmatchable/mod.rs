//! Members that nothing can ever match: refused with their names, or accepted with a header and
//! found by doctor where acceptance is recorded.

mod accepted;
mod refused;

use model::{
    clock::Timestamp,
    entity::{Id, PostureCheck, Record},
};
use policy::change::KINDS;

use serde_json::{Value as Json, json};

use crate::command_line::on_host;

use crate::harness::{Answer, Authority, Caller, TestServer, fresh, shared, stores};

/// The header that names them.
const HEADER: &str = "overkeep-unmatchable-members";

const SHA1: &str = "00112233445566778899aabbccddeeff00112233";

fn sha512() -> String {
    "ab:".repeat(64)
}

fn check(demand: &Json) -> Json {
    let mut body = json!({ "name": fresh("check"), "roleAttributes": ["strict"] });
    body.as_object_mut()
        .unwrap()
        .extend(demand.as_object().unwrap().clone());
    body
}

fn process(members: &[(&str, Json)]) -> Json {
    let mut process = json!({ "osType": "Linux", "path": "/bin/guard" });
    members
        .iter()
        .for_each(|(name, value)| process[*name] = value.clone());
    json!({ "typeId": "PROCESS", "process": process })
}

fn processes(semantic: &str, list: &[Json]) -> Json {
    json!({ "typeId": "PROCESS_MULTI", "semantic": semantic, "processes": list })
}

fn one(system: &str, path: &str, hashes: &[&str], signers: &[&str]) -> Json {
    json!({ "osType": system, "path": path, "hashes": hashes, "signerFingerprints": signers })
}

fn authority(claim: &[(&str, Json)]) -> Json {
    let name = fresh("authority");
    let mut body = json!({
        "name": name, "certPem": Authority::new(&name).pem(), "isAuthEnabled": true, "isAutoCaEnrollmentEnabled": false,
        "isOttCaEnrollmentEnabled": false, "identityRoles": [], "identityNameFormat": "",
        "externalIdClaim": {
            "location": "COMMON_NAME", "matcher": "ALL", "matcherCriteria": "", "parser": "NONE", "parserCriteria": "", "index": 0
        }
    });
    claim
        .iter()
        .for_each(|(name, value)| body["externalIdClaim"][*name] = value.clone());
    body
}
