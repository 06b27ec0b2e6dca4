//! What `unpublish` deletes and what it leaves.

use super::*;

#[test]
fn what_was_made_goes_in_one_transaction() {
    let office = Office::new();
    let other = Office {
        service: fresh("other"),
        host: office.host.clone(),
        user: office.user.clone(),
        role: office.role.clone(),
        server: office.server,
    };
    other.publish(&[]).good();
    let before = other.network();
    let office = Office {
        service: office.service,
        ..other
    };
    office.publish(&[]).good();
    assert_eq!(office.published().len(), 5);
    let told = office.unpublish(&[]).good();
    for words in [
        format!("delete services {}", office.service),
        format!("delete service-policies {}", office.named("dial")),
        format!("loses: {} may dial {}", office.user, office.service),
    ] {
        assert!(told.contains(&words), "{words}: {told}");
    }
    assert!(!told.contains("keep "), "{told}");
    assert_eq!(office.network(), before);
    assert_eq!(office.last_change().len(), 5, "{:#?}", office.last_change());
    office
        .unpublish(&[])
        .bad(1, &["nothing", "published", &office.service]);
}

#[test]
fn a_preview_deletes_nothing() {
    let office = Office::new();
    office.publish(&[]).good();
    let (before, last) = (office.network(), office.last_change());
    let told = office.unpublish(&["--preview"]).good();
    for words in [
        format!("delete services {}", office.service),
        format!("loses: {} may bind {}", office.host, office.service),
        "nothing was changed".to_owned(),
    ] {
        assert!(told.contains(&words), "{words}: {told}");
    }
    assert_eq!((office.network(), office.last_change()), (before, last));
}

#[test]
fn policies_beside_a_service_that_existed_go() {
    let office = Office::new();
    let service = office.service.as_str();
    let configs = ["host.v1", "intercept.v1"].map(|ending| office.named(ending));
    office.publish(&[]).good();
    // Published by somebody else, as far as its tag says.
    let found = office
        .server
        .admin
        .list("/services", &format!("name=\"{service}\""), "");
    let id = found.expect(200).each("id")[0].to_owned();
    let path = format!("/services/{id}");
    office
        .server
        .admin
        .patch(&path, json!({ "tags": { "published": "other" } }))
        .expect(200);
    let told = office.unpublish(&[]).good();
    for ending in ["bind", "dial"] {
        let words = format!("delete service-policies {}", office.named(ending));
        assert!(told.contains(&words), "{words}: {told}");
    }
    assert!(
        told.contains(&format!("the service {service} uses it")),
        "{told}"
    );
    assert!(!told.contains("names other services"), "{told}");
    // The configs, and the service that uses them.
    assert_eq!(office.published().len(), configs.len() + 1);
}

#[test]
fn what_others_use_stays() {
    let office = Office::new();
    office.publish(&[]).good();
    let [shop, support, over] = ["shop", "support", "over"].map(fresh);
    let [config, dial] = ["host.v1", "dial"].map(|ending| office.named(ending));
    let run = |words: &[&str]| on_host(&office.server, words).good();
    run(&["create", "service", &shop, "--configs", &config]);
    let role = format!("service:@{shop}");
    run(&["update", "service-policy", &dial, "--add-role", &role]);
    // A policy of others that names the service.
    let roles = format!("@{},@{shop}", office.service);
    run(&[
        "create",
        "service-policy",
        &support,
        "--type",
        "Dial",
        "--service-roles",
        &roles,
    ]);
    run(&[
        "create",
        "service-edge-router-policy",
        &over,
        "--service-roles",
        &roles,
        "--edge-router-roles",
        "#all",
    ]);
    let told = office.unpublish(&["--preview"]).good();
    assert_eq!(office.unpublish(&[]).good() + "\nnothing was changed", told);
    for words in [
        format!("keep configs {config}: the service {shop} uses it"),
        format!("keep service-policies {dial}: it names other services too, @{shop}"),
        format!(
            "update service-policies {dial}: it names {} no longer",
            office.service
        ),
        format!(
            "update service-policies {support}: it names {} no longer",
            office.service
        ),
        format!(
            "update service-edge-router-policies {over}: it names {} no longer",
            office.service
        ),
        format!("delete services {}", office.service),
        format!("delete configs {}", office.named("intercept.v1")),
        format!("delete service-policies {}", office.named("bind")),
    ] {
        assert!(told.contains(&words), "{words}: {told}");
    }
    assert_eq!(office.published(), [config.clone(), dial.clone()]);
    assert_eq!(
        office.record("services", &shop)["configs"],
        json!([config]),
        "it is as it was"
    );
    for policy in [&dial, &support] {
        assert_eq!(
            office.record("service-policies", policy)["serviceRoles"],
            json!([format!("@{shop}")])
        );
    }
}

#[test]
fn what_was_changed_stays() {
    let office = Office::new();
    office.publish(&[]).good();
    let [config, bind] = ["intercept.v1", "bind"].map(|ending| office.named(ending));
    let run = |words: &[&str]| on_host(&office.server, words).good();
    let data = json!({ "protocols": ["tcp"], "addresses": ["shop.internal"], "portRanges": [{ "low": 1, "high": 2 }] });
    run(&[
        "update",
        "config",
        &config,
        "--member-data",
        &data.to_string(),
    ]);
    let user = format!("identity:@{}", office.user);
    run(&["update", "service-policy", &bind, "--add-role", &user]);
    let told = office.unpublish(&[]).good();
    for words in [
        format!("keep configs {config}: it was changed at 2"),
        format!("keep service-policies {bind}: it was changed at 2"),
        format!("delete services {}", office.service),
    ] {
        assert!(told.contains(&words), "{words}: {told}");
    }
    assert_eq!(office.published(), [config, bind]);
    let told = office.unpublish(&[]).good();
    assert!(
        told.contains("keep configs") && told.ends_with("nothing was changed"),
        "{told}"
    );
}

#[test]
fn a_service_that_was_changed_stays_with_its_configs() {
    let office = Office::new();
    office.publish(&[]).good();
    on_host(
        &office.server,
        &[
            "update",
            "service",
            &office.service,
            "--add-role",
            "internal",
        ],
    )
    .good();
    let told = office.unpublish(&[]).good();
    let uses = format!("the service {} uses it", office.service);
    assert_eq!(told.matches(&uses).count(), 2, "{told}");
    assert_eq!(
        office.published(),
        [
            office.named("host.v1"),
            office.named("intercept.v1"),
            office.service.clone()
        ]
    );
    assert!(!office.may("dial", &office.user) && !office.may("bind", &office.host));
}
