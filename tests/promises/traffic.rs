//! A right alone is not enough: explain says yes only if traffic can flow, and otherwise names what
//! to start.

use std::sync::Arc;

use model::{config::Config, entity::RouterInfo};
use overkeep::testing::{
    admin_socket::{AdminContext, Command, Outcome},
    controller,
};
use policy::access::Right;
use serde_json::{Value as Json, json};
use store::Progress;

use crate::{
    explain::{Asked, is_yes},
    harness::fresh,
};

/// The answer of the host command `explain`.
fn explained(
    admin_context: &AdminContext,
    right: Right,
    identity: &str,
    service: &str,
    json: bool,
) -> String {
    let command = Command::Explain {
        right,
        identity: identity.into(),
        service: service.into(),
        json,
    };
    let outcome = admin_context
        .act(command, &Arc::new(Progress::default()))
        .unwrap();
    let is_done = matches!(outcome, Outcome::Done(_));
    let (Outcome::Done(lines) | Outcome::Problems(lines)) = outcome;
    let text = lines.join("\n");
    // The command ends with status 3 unless the answer is yes.
    assert_eq!(
        is_done,
        text.starts_with("yes: ") || text.contains("\"verdict\": true"),
        "{text}"
    );
    text
}

/// The obstacles that concern traffic, with their remedies.
fn traffic_obstacles(why: &Json) -> Vec<(String, String)> {
    let of_traffic = why["obstacles"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|obstacle| obstacle["concerns"] == "traffic");
    of_traffic
        .map(|obstacle| {
            ["what", "remedy"]
                .map(|member| obstacle[member].as_str().unwrap().to_owned())
                .into()
        })
        .collect()
}

#[test]
fn explain_names_missing_hosts() {
    let running = Asked::start();
    let server = &running.server;
    let (alice, _) = server.user(&fresh("alice"), json!({}));
    let (bob, _) = server.user("the-host", json!({}));
    let [database, orphan, old] =
        ["database", "orphan", "old"].map(|name| server.service(&fresh(name), json!({})));
    let router = server.router_between(&alice, &database);
    let all = [&database, &orphan, &old].map(|service| format!("@{service}"));
    let routers = |path: &str, member: &str, ids: &[String]| {
        let body = json!({ "name": fresh("all"), "semantic": "AnyOf", member: ids, "edgeRouterRoles": [format!("@{router}")] });
        server.admin.post(path, body).expect(201);
    };
    routers("/service-edge-router-policies", "serviceRoles", &all);
    routers(
        "/edge-router-policies",
        "identityRoles",
        &[format!("@{bob}")],
    );
    server.service_policy(
        "Dial",
        &[&format!("@{alice}")],
        &all.each_ref().map(String::as_str),
    );
    server.service_policy("Bind", &[&format!("@{bob}")], &[&all[0]]);
    let elsewhere = server
        .admin
        .post("/edge-routers", json!({ "name": "elsewhere" }))
        .expect(201)
        .id();
    let terminator = |service: &str, router: &str| {
        let body = json!({ "service": service, "router": router, "address": "tcp:localhost:80", "binding": "transport" });
        server.admin.post("/terminators", body).expect(201).id()
    };
    terminator(&old, &elsewhere);

    // Nothing is connected.
    let why = running.dial(&alice, &database);
    assert!(is_yes(&why) && why["verdict"] == false, "{why:#}");
    let obstacles = traffic_obstacles(&why);
    assert_eq!(
        obstacles
            .iter()
            .map(|(what, _)| what.as_str())
            .collect::<Vec<_>>(),
        ["routerNotConnected", "noHost"],
        "{why:#}"
    );
    assert!(
        obstacles[0].1.contains("start one of them")
            && obstacles[0].1.contains("has not enrolled yet"),
        "{obstacles:?}"
    );
    assert!(
        obstacles[1].1.contains("the-host (not connected)"),
        "{obstacles:?}"
    );

    let Asked {
        server,
        data,
        _directory,
    } = running;
    drop(server);
    let mut config = Config {
        data,
        ..Config::default()
    };
    config.passwords.cost = 10;
    let admin_context = controller::host(
        &config,
        &Command::Unlock {
            username: "x".into(),
        },
    )
    .unwrap();
    let why = |right, identity: &str, service: &str| -> Json {
        serde_json::from_str(&explained(&admin_context, right, identity, service, true)).unwrap()
    };
    let obstacle_names = |why: &Json| {
        traffic_obstacles(why)
            .into_iter()
            .map(|(what, _)| what)
            .collect::<Vec<_>>()
    };
    let online = admin_context.store.online();
    online.set_router(&router, Some(RouterInfo::default()));

    // Hosting needs a router and no other host.
    let bind = why(Right::Bind, &bob, &database);
    assert!(
        bind["verdict"] == true && bind["obstacles"] == json!([]),
        "{bind:#}"
    );
    assert!(
        explained(&admin_context, Right::Bind, &bob, &database, false)
            .starts_with("yes: the-host may bind")
    );
    online.channel_opened(&bob);
    let dial = why(Right::Dial, &alice, &database);
    assert_eq!(obstacle_names(&dial), ["noHost"]);
    assert!(
        traffic_obstacles(&dial)[0]
            .1
            .contains("the-host (connected, but does not bind it)"),
        "{dial:#}"
    );
    let text = explained(&admin_context, Right::Dial, &alice, &database, false);
    assert!(
        text.starts_with("may, but cannot now: ")
            && text.contains("to change that: start the hosting program"),
        "{text}"
    );

    let anonymous = why(Right::Dial, &alice, &orphan);
    assert_eq!(obstacle_names(&anonymous), ["noTerminator"]);
    assert!(
        traffic_obstacles(&anonymous)[0]
            .1
            .contains("service policy of type Bind"),
        "{anonymous:#}"
    );
    let unreachable = why(Right::Dial, &alice, &old);
    assert_eq!(obstacle_names(&unreachable), ["terminatorNotReachable"]);
    assert!(
        traffic_obstacles(&unreachable)[0].1.contains("elsewhere"),
        "{unreachable:#}"
    );
    online.set_router(&elsewhere, Some(RouterInfo::default()));
    let apart = why(Right::Dial, &alice, &old);
    assert_eq!(obstacle_names(&apart), ["noPath"]);
    assert!(
        apart["obstacles"][0]["text"]
            .as_str()
            .unwrap()
            .ends_with("to router elsewhere"),
        "{apart:#}"
    );
    online.link_opened("link", [elsewhere.clone(), router.clone()]);
    assert_eq!(why(Right::Dial, &alice, &old)["verdict"], true);
    let at = admin_context.clock.now();
    online.link_lost("link", "a router reports its loss", at);
    let lost = why(Right::Dial, &alice, &old);
    assert!(
        lost["obstacles"][0]["text"]
            .as_str()
            .unwrap()
            .ends_with(&format!("was lost at {at}: a router reports its loss")),
        "{lost:#}"
    );
    // It is reached over a third router, unless that may not be passed.
    let third = "third".to_owned();
    online.set_router(&third, Some(RouterInfo::default()));
    online.link_opened("one", [elsewhere.clone(), third.clone()]);
    online.link_opened("two", [third.clone(), router.clone()]);
    assert_eq!(
        obstacle_names(&why(Right::Dial, &alice, &old)),
        ["noPath"],
        "it has no record"
    );
    online.link_opened("link", [elsewhere.clone(), router.clone()]);
    assert_eq!(why(Right::Dial, &alice, &old)["verdict"], true);
    let text = explained(&admin_context, Right::Dial, &alice, &old, false);
    assert!(
        text.starts_with("yes: ")
            && text.contains("\n  connected, hosted by a terminator on elsewhere"),
        "{text}"
    );
    online.set_router(&router, None);
    assert_eq!(
        obstacle_names(&why(Right::Dial, &alice, &old)),
        ["routerNotConnected"]
    );

    // Without the right, the missing right comes first and the answer is no.
    let no = why(Right::Dial, &bob, &database);
    assert!(
        no["allowed"] == false
            && no["verdict"] == false
            && no["obstacles"][0]["concerns"] == "rights",
        "{no:#}"
    );
    assert!(
        explained(&admin_context, Right::Dial, &bob, &database, false)
            .starts_with("no: the-host may not dial")
    );
    admin_context.store.close();
}

/// Both operations read the same policies and connections and must not contradict each other.
#[test]
fn policy_advice_and_explain_agree() {
    let running = Asked::start();
    let server = &running.server;
    let roles = ["red", "green", "blue"];
    for colour in roles {
        server
            .admin
            .post(
                "/edge-routers",
                json!({ "name": fresh("router"), "roleAttributes": [colour] }),
            )
            .expect(201);
    }
    let identities: Vec<String> = (0..4)
        .map(|n| server.identity(&fresh("who"), json!({ "roleAttributes": [roles[n % 3]] })))
        .collect();
    let services: Vec<String> = (0..4)
        .map(|n| server.service(&fresh("what"), json!({ "roleAttributes": [roles[n % 3]] })))
        .collect();
    let policy = |path: &str,
                  right: Option<&str>,
                  [one, role]: [&str; 2],
                  [other, to]: [&str; 2]| {
        let mut body = json!({ "name": fresh("policy"), "semantic": "AnyOf", one: [format!("#{role}")], other: [format!("#{to}")] });
        right
            .into_iter()
            .for_each(|right| body["type"] = right.into());
        server.admin.post(path, body).expect(201);
    };
    policy(
        "/service-policies",
        Some("Dial"),
        ["identityRoles", "red"],
        ["serviceRoles", "green"],
    );
    policy(
        "/service-policies",
        Some("Bind"),
        ["identityRoles", "green"],
        ["serviceRoles", "red"],
    );
    policy(
        "/edge-router-policies",
        None,
        ["identityRoles", "red"],
        ["edgeRouterRoles", "red"],
    );
    policy(
        "/edge-router-policies",
        None,
        ["identityRoles", "green"],
        ["edgeRouterRoles", "all"],
    );
    policy(
        "/service-edge-router-policies",
        None,
        ["serviceRoles", "red"],
        ["edgeRouterRoles", "all"],
    );
    policy(
        "/service-edge-router-policies",
        None,
        ["serviceRoles", "green"],
        ["edgeRouterRoles", "green"],
    );
    let (mut yes, mut no) = (0, 0);
    for (who, what) in identities
        .iter()
        .flat_map(|who| services.iter().map(move |what| (who, what)))
    {
        let advice = server
            .admin
            .get(&format!("/identities/{who}/policy-advice/{what}"))
            .expect(200);
        let advice = advice.data();
        for (right, member) in [("Dial", "isDialAllowed"), ("Bind", "isBindAllowed")] {
            let why = running.ask(right, who, what).expect(200);
            let why = why.data();
            let is_granted = !why["policies"].as_array().unwrap().is_empty();
            assert_eq!(advice[member], is_granted, "{advice:#} {why:#}");
            let of = |routers: &Json| {
                let pair = |router: &Json| {
                    (
                        router["id"].as_str().unwrap().to_owned(),
                        router["isOnline"].as_bool().unwrap(),
                    )
                };
                let mut routers: Vec<_> = routers.as_array().unwrap().iter().map(pair).collect();
                routers.sort();
                routers
            };
            let (advised, explained) = (of(&advice["commonRouters"]), of(&why["routers"]));
            assert_eq!(advised, explained);
            let is_possible =
                advice[member] == true && advised.iter().any(|(_, is_online)| *is_online);
            assert!(
                is_possible || why["verdict"] == false,
                "explain says yes where the advice has no router: {advice:#} {why:#}"
            );
            *if is_granted { &mut yes } else { &mut no } += 1;
        }
    }
    assert!(yes > 2 && no > 2, "{yes} times granted, {no} times not");
}
