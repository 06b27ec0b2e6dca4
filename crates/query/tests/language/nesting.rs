//! Deep filters on a small stack.

use std::thread;

use query::*;

use super::rows::*;

/// A stack much smaller than any thread of Overkeep has.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new()
        .stack_size(512 * 1024)
        .spawn(work)
        .expect("thread");
    thread.join().expect("no overflow, no panic");
}

#[test]
fn deep_filters_never_overflow() {
    on_a_small_stack(|| {
        let nested = |depth: usize, inner: &str| {
            parse(&format!(
                "{}{inner}{}",
                "(".repeat(depth),
                ")".repeat(depth)
            ))
        };
        assert!(
            nested(MAX_DEPTH, "true").is_ok_and(|query| query.predicate.matches(&Row::new("")))
        );
        let fault = nested(MAX_DEPTH + 1, "true").expect_err("too deep");
        assert_eq!(
            fault.to_string(),
            format!(
                "nested deeper than {MAX_DEPTH} levels at line 1, column {}",
                MAX_DEPTH + 2
            )
        );
        assert!(
            parse(&vec!["(true)"; 2 * MAX_DEPTH].join(" and ")).is_ok(),
            "conditions side by side are not nested"
        );
        for opening in ["(", "isEmpty(from configs where ", "not (", "true and ("] {
            assert!(parse(&opening.repeat(20_000)).is_err());
            assert!(parse(&opening.repeat(1_000)).is_err());
        }
        assert!(nested(100_000, "true").is_err());
        // An even number of these prefixes leaves `true` unchanged.
        for (link, odd) in [
            ("not ", false),
            ("true and ", true),
            ("false or ", true),
            ("true and not ", false),
        ] {
            let most = (MAX_LENGTH - 4) / link.len();
            for (links, expected) in [(most & !1, true), ((most - 1) | 1, odd)] {
                let query = parse(&format!("{}true", link.repeat(links))).expect(link);
                assert_eq!(
                    query.predicate.matches(&Row::new("")),
                    expected,
                    "{link} {links} times"
                );
                assert!(query.clone().predicate.indexable_conditions().is_empty());
            }
        }
        assert!(parse(&format!("name = \"{}\"", "x".repeat(MAX_LENGTH))).is_err());
        assert!(parse(&"x".repeat(3_000)).is_err());
    });
}
