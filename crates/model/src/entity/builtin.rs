//! The built-in records of a new file: config types that tunnelers know by name, identity types,
//! posture check types, and the default auth policy.

mod config_types;

use super::{
    AuthPolicy, Entity, Id, IdentityKind, IdentityType, OperatingSystem, OsType, PostureCheckType,
    Record,
    auth_policy::{Cert, ExtJwt, Primary, Secondary, Updb},
    identity::DEFAULT_AUTH_POLICY,
};
use crate::clock::Timestamp;

pub use config_types::config_types;
pub use config_types::{Shipped, is_shipped, renewed};

/// The identity types.
pub fn identity_types(now: Timestamp) -> Vec<Record<IdentityType>> {
    let kinds = [IdentityKind::Default, IdentityKind::Router].map(IdentityKind::as_str);
    kinds
        .into_iter()
        .map(|name| Record::new(Id::from_text(name), now, IdentityType { name: name.into() }))
        .collect()
}

/// The posture check types. MFA has none, because it needs no operating system.
pub fn posture_check_types(now: Timestamp) -> Vec<Record<PostureCheckType>> {
    use OsType::{Android, Ios, Linux, MacOs, Windows};
    let types: [(&str, &str, &[OsType], bool); 5] = [
        (
            "OS",
            "Operating System Check",
            &[Android, Linux, Windows, Ios, MacOs],
            true,
        ),
        ("PROCESS", "Process Check", &[Linux, Windows, MacOs], true),
        ("DOMAIN", "Windows Domain Check", &[Windows], true),
        (
            "MAC",
            "MAC Address Check",
            &[Android, Linux, Windows, MacOs],
            true,
        ),
        (
            "PROCESS_MULTI",
            "Process Multi Check",
            &[Linux, Windows, MacOs],
            false,
        ),
    ];
    let record = |(id, name, systems, versioned): (&str, &str, &[OsType], bool)| {
        let versions = |os_type| if versioned { versions(os_type) } else { &[] };
        let system = |os_type: &OsType| OperatingSystem {
            os_type: *os_type,
            versions: versions(*os_type).iter().map(ToString::to_string).collect(),
        };
        let operating_systems = systems.iter().map(system).collect();
        Record::new(
            Id::from_text(id),
            now,
            PostureCheckType {
                name: name.into(),
                operating_systems,
            },
        )
    };
    types.into_iter().map(record).collect()
}

/// The versions that clients offer as a choice, as of the time the list was made.
fn versions(os_type: OsType) -> &'static [&'static str] {
    match os_type {
        OsType::Windows => &["10", "2000", "7", "8", "Vista"],
        OsType::Linux => &["4.14", "4.19", "5.4", "5.9"],
        OsType::Android => &["10", "11", "9"],
        OsType::MacOs => &["10.15", "11.0"],
        OsType::Ios => &["11", "12"],
        OsType::WindowsServer => &[],
    }
}

/// The auth policy of identities that name none: every method is allowed, no second factor is
/// required. Administrators may change it.
pub fn auth_policy(now: Timestamp) -> Record<AuthPolicy> {
    let updb = Updb {
        allowed: true,
        min_password_length: 5,
        require_special_char: false,
        require_number_char: false,
        require_mixed_case: false,
        max_attempts: 0,
        lockout_duration_minutes: 0,
    };
    let cert = Cert {
        allowed: true,
        allow_expired_certs: true,
    };
    let ext_jwt = ExtJwt {
        allowed: true,
        allowed_signers: Vec::new(),
    };
    let secondary = Secondary {
        require_totp: false,
        require_ext_jwt_signer: None,
    };
    let mut policy = AuthPolicy {
        name: "Default".into(),
        primary: Primary {
            cert,
            ext_jwt,
            updb,
        },
        secondary,
    };
    policy.tidy();
    Record::new(Id::from_text(DEFAULT_AUTH_POLICY), now, policy)
}
