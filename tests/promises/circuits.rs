//! Administrators see the traffic through the built-in router and can end it.

use serde_json::json;

use crate::harness::{Base, encoded, fresh, shared};

#[test]
fn live_lists_filter_sort_and_page() {
    let overkeep = shared().admin.at(Base::Overkeep);
    for (path, sort) in [
        ("/circuits", "client.sentBytes desc, service.name"),
        ("/channels", "queuedBytes desc, identity.name"),
        ("/online", "name, since desc"),
    ] {
        let listed = overkeep
            .list(
                path,
                "since > datetime(2020-01-01T00:00:00Z)",
                &format!("&sort={}", encoded(sort)),
            )
            .expect(200);
        assert_eq!((listed.total(), listed.data()), (0, &json!([])));
        overkeep
            .list(path, "colour = \"red\"", "")
            .refused(400, "INVALID_FILTER", "");
        overkeep
            .get(&format!("{path}?sort=colour"))
            .refused(400, "INVALID_SORT_IDENTIFIER", "");
    }
    overkeep.get("/circuits/none").refused(404, "NOT_FOUND", "");
    overkeep
        .delete("/circuits/none")
        .refused(404, "NOT_FOUND", "");
    let (_, bob) = shared().user(&fresh("bob"), json!({}));
    for path in ["/circuits", "/circuits/none", "/channels", "/online"] {
        bob.at(Base::Overkeep)
            .get(path)
            .refused(401, "UNAUTHORIZED", "");
    }
}
