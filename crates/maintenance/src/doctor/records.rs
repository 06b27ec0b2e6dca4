//! Checks of records that are valid and yet dangerous or useless: signers that may log in as
//! anybody, names that look like others, checks and claims that nothing can match, and passwords
//! that may be guessed.

use model::{
    entity::{
        AuthPolicy, Ca, Entity, ExternalJwtSigner, Id, Identity, PostureCheck,
        auth_policy::LONG_PASSWORD,
    },
    error::Result,
    hidden_text::{is_in, quoted, shown},
};
use policy::{
    authentication::{administrators, guessable_policies},
    change::KINDS,
};
use store::Read;

use super::DoctorFinding;

/// The checks of [`findings`].
pub const CHECKS: [&str; 4] = [SIGNERS, NAMES, UNMATCHABLE, PASSWORDS];
const SIGNERS: &str = "signers";
const NAMES: &str = "names";
const UNMATCHABLE: &str = "checks and claims";
const PASSWORDS: &str = "passwords";
/// Names in one finding.
const SHOWN: usize = 5;

/// The findings about records.
///
/// # Errors
/// The store cannot be read.
pub fn findings(read: &Read<'_>) -> Result<Vec<DoctorFinding>> {
    Ok(vec![
        signers(read)?,
        names(read)?,
        unmatchable(read)?,
        passwords(read)?,
    ])
}

/// Signers whose tokens log in as every identity of an auth policy, because the policy lists no
/// signers.
fn signers(read: &Read<'_>) -> Result<DoctorFinding> {
    let (mut enabled, mut open) = (Vec::new(), Vec::new());
    read.each_readable::<ExternalJwtSigner>(|signer| {
        enabled.extend(signer.spec.enabled.then_some(signer.spec.name));
        Ok(())
    })?;
    read.each_readable::<AuthPolicy>(|policy| {
        let ext_jwt = &policy.spec.primary.ext_jwt;
        if ext_jwt.allowed
            && ext_jwt.allowed_signers.is_empty()
            && read.any::<Identity>("authPolicyId", policy.id.as_str())?
        {
            open.push((policy.id, policy.spec.name));
        }
        Ok(())
    })?;
    if enabled.is_empty() {
        return Ok(DoctorFinding::good(SIGNERS, "none is enabled"));
    }
    if open.is_empty() {
        return Ok(DoctorFinding::good(
            SIGNERS,
            "every auth policy in use lists those that it allows",
        ));
    }
    let is_open = |policy: &Id<AuthPolicy>| open.iter().any(|(id, _)| id == policy);
    let count = administrators(read)?
        .iter()
        .filter(|identity| is_open(identity.spec.auth_policy()))
        .count();
    let first = |names: &mut dyn Iterator<Item = &String>| {
        names.take(SHOWN).cloned().collect::<Vec<_>>().join(", ")
    };
    let (signers, policies) = (
        first(&mut enabled.iter()),
        first(&mut open.iter().map(|(_, name)| name)),
    );
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
                first.extend(
                    (count <= SHOWN).then(|| format!("{} {}", entry.kind.noun, shown(name))),
                );
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
    Ok(DoctorFinding::bad(
        NAMES,
        detail,
        "such a name can look like another one: rename these records, or delete them",
    ))
}

/// Posture checks, authorities and signers with members that no endpoint, certificate or token can
/// match.
fn unmatchable(read: &Read<'_>) -> Result<DoctorFinding> {
    let mut found = Unmatched::default();
    found.add::<PostureCheck>(read, |check| &check.name)?;
    found.add::<Ca>(read, |ca| &ca.name)?;
    found.add::<ExternalJwtSigner>(read, |signer| &signer.name)?;
    if found.count == 0 {
        return Ok(DoctorFinding::good(UNMATCHABLE, "each can be matched"));
    }
    let detail = format!(
        "nothing can ever match {} members: {}",
        found.count,
        found.first.join("; ")
    );
    Ok(DoctorFinding::bad(
        UNMATCHABLE,
        detail,
        "correct these members: the records keep everybody out, or do less than they say",
    ))
}

/// Members that nothing can match: how many there are, and the first of them.
#[derive(Default)]
struct Unmatched {
    count: usize,
    first: Vec<String>,
}

impl Unmatched {
    fn add<E: Entity>(&mut self, read: &Read<'_>, name: fn(&E) -> &String) -> Result<()> {
        read.each_readable::<E>(|record| {
            for found in record.spec.unmatchable() {
                self.count += 1;
                let line = || {
                    format!(
                        "{} {}: {} {}",
                        E::KIND.noun,
                        shown(name(&record.spec)),
                        found.member,
                        found.reason
                    )
                };
                self.first.extend((self.count <= SHOWN).then(line));
            }
            Ok(())
        })
    }
}

/// Auth policies in use whose passwords are short, or may be tried without end.
fn passwords(read: &Read<'_>) -> Result<DoctorFinding> {
    let weak = guessable_policies(read)?;
    if weak.is_empty() {
        return Ok(DoctorFinding::good(
            PASSWORDS,
            "every auth policy in use asks for long ones and limits wrong ones",
        ));
    }
    let names: Vec<String> = weak
        .iter()
        .take(SHOWN)
        .map(|policy| shown(&policy.spec.name))
        .collect();
    // A name with characters that are shown in another way does not lead to its policy.
    let named = weak.first().map(|policy| {
        if is_in(&policy.spec.name) {
            policy.id.to_string()
        } else {
            policy.spec.name.clone()
        }
    });
    let first = quoted(&named.unwrap_or_default());
    let detail = format!(
        "auth policies in use allow passwords with less than {LONG_PASSWORD} characters, or any number of wrong ones: {}",
        names.join(", ")
    );
    let mend = format!(
        "overkeep update auth-policy {first} --primary.updb.min-password-length {LONG_PASSWORD} --primary.updb.max-attempts 10 \
         --primary.updb.lockout-duration-minutes 1; passwords.max-lockout-minutes makes repeated lockouts longer"
    );
    Ok(DoctorFinding::bad(PASSWORDS, detail, mend))
}
