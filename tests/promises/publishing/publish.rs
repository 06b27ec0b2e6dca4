//! What `publish` makes, keeps and refuses.

use super::*;

#[test]
fn a_service_comes_with_configs_and_both_policies() {
    let office = Office::new();
    let Office {
        host,
        user,
        role,
        service,
        ..
    } = &office;
    let told = office.publish(&[]).good();
    for line in [
        format!("create configs {service}.host.v1"),
        format!("create configs {service}.intercept.v1"),
        format!("create services {service}"),
        format!("create service-policies {service}.bind"),
        format!("create service-policies {service}.dial"),
        format!("gains: {user} may dial {service} (1 in all)"),
        format!("gains: {host} may bind {service} (1 in all)"),
        format!("on the machine of {host}: overkeep host -i FILE {service} 127.0.0.1:80"),
        format!("on the machine of #{role}: overkeep forward -i FILE {service} 127.0.0.1:8080"),
    ] {
        assert!(
            told.lines().filter(|told| **told == line).count() == 1,
            "{line}: {told}"
        );
    }
    let tags = json!({ "published": service });
    assert_eq!(
        office.record("configs", &office.named("host.v1")),
        json!({
            "name": office.named("host.v1"), "configTypeId": "host.v1",
            "data": { "protocol": "tcp", "address": "127.0.0.1", "port": 80 }, "tags": tags
        })
    );
    assert_eq!(
        office.record("configs", &office.named("intercept.v1")),
        json!({
            "name": office.named("intercept.v1"), "configTypeId": "intercept.v1",
            "data": { "protocols": ["tcp"], "addresses": ["web.internal"], "portRanges": [{ "low": 8080, "high": 8080 }] },
            "tags": tags
        })
    );
    assert_eq!(
        office.record("services", service),
        json!({
            "name": service, "encryptionRequired": true,
            "configs": [office.named("host.v1"), office.named("intercept.v1")], "tags": tags
        })
    );
    for (ending, right, who) in [
        ("bind", "Bind", format!("@{host}")),
        ("dial", "Dial", format!("#{role}")),
    ] {
        assert_eq!(
            office.record("service-policies", &office.named(ending)),
            json!({
                "name": office.named(ending), "type": right, "semantic": "AnyOf", "identityRoles": [who],
                "serviceRoles": [format!("@{service}")], "tags": tags
            })
        );
    }
    let rights = |identity: &str| ["dial", "bind"].map(|right| office.may(right, identity));
    assert_eq!(rights(user), [true, false]);
    assert_eq!(rights(host), [false, true]);
    let change = office.last_change();
    assert_eq!(change.len(), 5, "one transaction: {change:#?}");
}

#[test]
fn several_hosts_and_users_each_have_the_right() {
    let office = Office::new();
    let [other, service] = ["#odd", "udp"].map(fresh);
    office.server.user(&other, json!({}));
    let (role, odd) = (format!("#{}", office.role), format!("@{other}"));
    let words = [
        "publish",
        &service,
        "--host",
        &office.host,
        "--host",
        &odd,
        "--to",
        &role,
        "--to",
        &odd,
        "--target",
        "udp:[::1]:53",
    ];
    let told = on_host(&office.server, &words).good();
    let office = Office { service, ..office };
    for (right, identity) in [
        ("bind", &office.host),
        ("bind", &other),
        ("dial", &office.user),
        ("dial", &other),
    ] {
        assert!(office.may(right, identity), "{right} {identity}: {told}");
    }
    assert_eq!(
        office.record("configs", &office.named("host.v1"))["data"],
        json!({ "protocol": "udp", "address": "::1", "port": 53 })
    );
    assert_eq!(office.find("configs", &office.named("intercept.v1")), None);
    assert!(
        told.contains(" 'udp:[::1]:53'") && told.contains(" udp:127.0.0.1:8080"),
        "{told}"
    );
}

#[test]
fn a_refused_part_leaves_nothing() {
    let office = Office::new();
    let nobody = fresh("nobody");
    let before = office.network();
    office.publish(&["--to", &nobody]).bad(1, &[&nobody]);
    office.publish(&["--host", &nobody]).bad(1, &[&nobody]);
    assert_eq!(office.network(), before);
    // The last record of the document is refused, after those before it were written.
    let dial = office.named("dial");
    let policy = json!({ "name": dial, "type": "Dial", "semantic": "AllOf" });
    office
        .server
        .admin
        .post("/service-policies", policy)
        .expect(201);
    let before = office.network();
    office
        .publish(&[])
        .bad(1, &[&dial, "semantic", "identityRoles", "serviceRoles"]);
    assert_eq!(office.network(), before);
    for wrong in ["80", "host:0", "host:70000", "host"] {
        let words = [
            "publish",
            "x",
            "--host",
            "a",
            "--to",
            "b",
            "--address",
            wrong,
        ];
        on_host(&office.server, &words).bad(2, &["--address", "host:port"]);
    }
    assert_eq!(office.network(), before);
}

#[test]
fn a_preview_changes_nothing() {
    let office = Office::new();
    let (before, last) = (office.network(), office.last_change());
    let told = office.publish(&["--preview"]).good();
    for words in [
        format!("create services {}", office.service),
        format!("gains: {} may dial {}", office.user, office.service),
        "nothing was changed".to_owned(),
    ] {
        assert!(told.contains(&words), "{words}: {told}");
    }
    assert!(!told.contains("overkeep host"), "{told}");
    assert_eq!((office.network(), office.last_change()), (before, last));
}

#[test]
fn roles_that_nobody_has_are_told() {
    let office = Office::new();
    let role = format!("#{}", fresh("nobody"));
    let words = [
        "publish",
        &office.service,
        "--host",
        &office.host,
        "--to",
        &role,
    ];
    let told = on_host(&office.server, &words).good();
    let line = format!(
        "nobody may dial {} yet: no identity is {role}",
        office.service
    );
    assert!(
        told.contains(&line) && !told.contains("nobody may bind"),
        "{told}"
    );
}

#[test]
fn parallel_commands_make_it_once() {
    let office = Office::new();
    let run = || office.publish(&[]).good();
    let told: Vec<String> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let made = |told: &&String| told.contains(&format!("create services {}", office.service));
    assert_eq!(told.iter().filter(made).count(), 1, "{told:#?}");
    assert_eq!(office.last_change().len(), 5);
    office.unpublish(&[]).good();
    assert_eq!(office.published(), [""; 0], "nothing was changed twice");
}

#[test]
fn equal_records_are_kept_and_named() {
    let office = Office::new();
    let config = office.named("host.v1");
    let data = json!({ "protocol": "tcp", "address": "127.0.0.1", "port": 80 });
    on_host(
        &office.server,
        &[
            "create",
            "config",
            &config,
            "--config-type-id",
            "host.v1",
            "--member-data",
            &data.to_string(),
            "--tags",
            "owner=hand",
        ],
    )
    .good();
    let told = office.publish(&[]).good();
    assert!(
        told.contains(&format!("keep configs {config}, which exists"))
            && told.contains(&format!("create services {}", office.service)),
        "{told}"
    );
    let kept = office.record("configs", &config);
    assert_eq!(kept["tags"], json!({ "owner": "hand" }));
    // The second time everything exists, and there is nothing to do.
    let (before, last) = (office.network(), office.last_change());
    let told = office.publish(&[]).good();
    let count = |words: &str| told.lines().filter(|line| line.starts_with(words)).count();
    assert_eq!((count("keep "), count("create ")), (5, 0), "{told}");
    assert!(
        told.contains("nobody gains access") && told.contains("overkeep forward"),
        "{told}"
    );
    assert_eq!((office.network(), office.last_change()), (before, last));
    // What was not made by it is not deleted.
    office.unpublish(&[]).good();
    assert_eq!(office.published(), [config]);
}

#[test]
fn what_exists_in_another_shape_is_named_with_the_field() {
    let office = Office::new();
    let service = &office.service;
    office
        .server
        .service(service, json!({ "roleAttributes": ["internal"] }));
    let before = office.network();
    office
        .publish(&[])
        .bad(1, &[service, "roleAttributes", "internal", "configs"]);
    assert_eq!(office.network(), before);
    let plain = fresh("plain");
    office
        .server
        .service(&plain, json!({ "encryptionRequired": false }));
    let office = Office {
        service: plain,
        ..office
    };
    office
        .publish(&[])
        .bad(1, &[&office.service, "encryptionRequired"]);
    // Other users are another policy.
    let office = Office {
        service: fresh("web"),
        ..office
    };
    office.publish(&[]).good();
    office
        .publish(&["--to", &office.user])
        .bad(1, &[&office.named("dial"), "identityRoles", &office.user]);
}

#[test]
fn the_order_of_lists_is_no_difference() {
    let office = Office::new();
    office.publish(&[]).good();
    let [host, intercept] = ["host.v1", "intercept.v1"].map(|ending| office.named(ending));
    let configs = format!("{intercept},{host}");
    on_host(
        &office.server,
        &["update", "service", &office.service, "--configs", &configs],
    )
    .good();
    let before = office.network();
    assert!(office.publish(&[]).good().contains("nobody gains access"));
    assert_eq!(office.network(), before);
}

#[test]
fn it_works_after_login_with_difficult_names() {
    let server = TestServer::start();
    let there = LoggedIn::to(&server);
    let (service, host) = ("-the \"web\" of o'brien $HOME", "häns, \\ 1");
    server.identity(host, json!({}));
    let words = |verb: &'static str| [verb, "--host", host, "--to", "#all", "--", service];
    let told = there.run(&words("publish")).good();
    let command = format!(
        "overkeep host -i FILE -- '{}' HOST:PORT",
        service.replace('\'', r"'\''")
    );
    assert!(told.contains(&command), "{told}");
    assert_eq!(there.run(&words("publish")).status, 0);
    let told = there.run(&["unpublish", "--", service]).good();
    assert!(
        told.contains(&format!("delete services {service}")),
        "{told}"
    );
    there
        .run(&["unpublish", "--", service])
        .bad(1, &["nothing", "published"]);
}

#[test]
fn the_lines_about_both_machines_work() {
    let server = TestServer::with_router();
    let there = LoggedIn::to(&server);
    let [host, user, service] = ["server", "alice", "web"].map(fresh);
    for name in [&host, &user] {
        let told = there.run(&["invite", name, "--role", "sales"]).good();
        there.typed(told.lines().last().unwrap()).good();
    }
    let web = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = web.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for connection in web.incoming() {
            std::io::Write::write_all(&mut connection.unwrap(), b"hello").unwrap();
        }
    });
    let told = there
        .run(&[
            "publish", &service, "--host", &host, "--target", &target, "--to", "#sales",
        ])
        .good();
    let command = |verb: &str, name: &str| {
        let marker = format!("overkeep {verb} -i FILE");
        let at = told.find(&marker).unwrap_or_else(|| panic!("{told}"));
        let line = told[at..].lines().next().unwrap();
        line.replace("FILE", &format!("{name}.json"))
    };
    // The host runs beside the user, and ends with the shell.
    let script = format!(
        "{} 2> host.log & host=$!; trap 'kill $host' EXIT\n\
         for try in $(seq 60); do {} 2> user.log < /dev/null && exit 0; sleep 0.5; done; cat host.log user.log; exit 1",
        command("host", &host),
        command("forward", &user).replace("127.0.0.1:8080", "-")
    );
    assert_eq!(there.typed(&script).good(), "hello");
}
