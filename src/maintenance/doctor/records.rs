//! Checks of records that are valid and yet dangerous: signers that may log in as anybody, and names that look like others.

use super::DoctorFinding;
use crate::{
    authentication::administrators,
    change::KINDS,
    entity::{AuthPolicy, ExternalJwtSigner, Id, Identity},
    error::Result,
    hidden_text::{is_in, shown},
    store::Read,
};

/// The checks of [`findings`].
pub(crate) const CHECKS: [&str; 2] = [SIGNERS, NAMES];
const SIGNERS: &str = "signers";
const NAMES: &str = "names";
/// Names in one finding.
const SHOWN: usize = 5;

/// The findings about records.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn findings(read: &Read<'_>) -> Result<Vec<DoctorFinding>> {
    Ok(vec![signers(read)?, names(read)?])
}

/// Signers whose tokens log in as every identity of an auth policy, because the policy lists no signers.
fn signers(read: &Read<'_>) -> Result<DoctorFinding> {
    let (mut enabled, mut open) = (Vec::new(), Vec::new());
    read.each_readable::<ExternalJwtSigner>(|signer| {
        enabled.extend(signer.spec.enabled.then_some(signer.spec.name));
        Ok(())
    })?;
    read.each_readable::<AuthPolicy>(|policy| {
        let ext_jwt = &policy.spec.primary.ext_jwt;
        if ext_jwt.allowed && ext_jwt.allowed_signers.is_empty() && read.any::<Identity>("authPolicyId", policy.id.as_str())? {
            open.push((policy.id, policy.spec.name));
        }
        Ok(())
    })?;
    if enabled.is_empty() {
        return Ok(DoctorFinding::good(SIGNERS, "none is enabled"));
    }
    if open.is_empty() {
        return Ok(DoctorFinding::good(SIGNERS, "every auth policy in use lists those that it allows"));
    }
    let is_open = |policy: &Id<AuthPolicy>| open.iter().any(|(id, _)| id == policy);
    let count = administrators(read)?.iter().filter(|identity| is_open(identity.spec.auth_policy())).count();
    let first = |names: &mut dyn Iterator<Item = &String>| names.take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    let (signers, policies) = (first(&mut enabled.iter()), first(&mut open.iter().map(|(_, name)| name)));
    let detail = format!(
        "tokens of every enabled signer ({signers}) log in as any identity of the auth policies that list no signers ({policies}), {count} \
         administrators included"
    );
    let mend = "list the signers in primary.extJwt.allowedSigners of these policies, or give administrators a policy without extJwt";
    Ok(DoctorFinding::bad(SIGNERS, detail, mend))
}

/// Names of records that show something else than they hold.
fn names(read: &Read<'_>) -> Result<DoctorFinding> {
    let (mut count, mut first) = (0_usize, Vec::new());
    for entry in KINDS {
        read.each_value(entry.kind, "name", &mut |name| {
            if is_in(name) {
                count += 1;
                first.extend((count <= SHOWN).then(|| format!("{} {}", entry.kind.noun, shown(name))));
            }
            Ok(())
        })?;
    }
    if count == 0 {
        return Ok(DoctorFinding::good(NAMES, "every name shows what it holds"));
    }
    let detail = format!(
        "{count} have control characters, characters that change the direction of text, or characters without width: {}",
        first.join(", ")
    );
    Ok(DoctorFinding::bad(NAMES, detail, "such a name can look like another one: rename these records, or delete them"))
}
