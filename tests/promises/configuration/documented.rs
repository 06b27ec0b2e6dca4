//! `controller.toml` documents every key, its default and its bounds.

use super::*;

/// Keys and their documented bounds in `controller.toml`.
fn documented_bounds() -> Vec<(String, String)> {
    let (mut section, mut bounds, mut found) = (String::new(), None, Vec::new());
    for line in DOCUMENTED.lines() {
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            section = format!("{name}.");
        } else if let Some(text) = line.strip_prefix("# Bounds: ") {
            bounds = Some(text.trim_end_matches('.').to_owned());
        } else if let Some((key, _)) = line
            .trim_start_matches("# ")
            .split_once(" = ")
            .filter(|(key, _)| !key.contains(' '))
        {
            // Also of keys whose line is a comment, because they have no default.
            found.extend(
                bounds
                    .take()
                    .map(|bounds| (format!("{section}{key}"), bounds)),
            );
        }
    }
    found
}

#[test]
fn controller_toml_holds_the_defaults() {
    assert_eq!(from_file(DOCUMENTED).unwrap(), Config::default());
    assert_eq!(configured(&[], &[]).unwrap(), Config::default());
}

#[test]
fn controller_toml_misses_no_key() {
    let live = Figment::from(Toml::string(DOCUMENTED));
    for (key, default) in run::keys().unwrap() {
        if let Value::Empty(..) = default {
            // With the keys of its section, which may depend on each other, or as a single line of
            // an existing section.
            let (section, name) = key.split_once('.').unwrap_or(("", &key));
            let whole = DOCUMENTED.contains(&format!("\n# {key} = "));
            assert!(
                whole || DOCUMENTED.contains(&format!("\n# {name} = ")),
                "{key} has no commented line"
            );
            let of = if whole && !section.is_empty() {
                format!("{section}.")
            } else {
                format!("{name} = ")
            };
            let live = DOCUMENTED.replace(&format!("\n# {of}"), &format!("\n{of}"));
            assert_ne!(
                from_file(&live).unwrap(),
                Config::default(),
                "the commented line of {key} sets nothing"
            );
        } else {
            assert!(live.find_value(&key).is_ok(), "{key} is missing");
        }
    }
}

#[test]
fn bounds_match_controller_toml() {
    let documented = documented_bounds();
    let measured = |value: &Value| {
        matches!(value, Value::Num(..))
            || value
                .as_str()
                .is_some_and(|text| text.parse::<Span>().is_ok())
    };
    let is_bounded = |key: &str, default: &Value| {
        measured(default) || (matches!(default, Value::Empty(..)) && Config::bounds(key).is_some())
    };
    let keys = run::keys()
        .unwrap()
        .into_iter()
        .filter(|(key, default)| is_bounded(key, default))
        .map(|(key, _)| key);
    assert_eq!(
        keys.collect::<BTreeSet<_>>(),
        documented.iter().map(|(key, _)| key.clone()).collect()
    );

    for (key, bounds) in documented {
        assert_eq!(Config::bounds(&key), Some(bounds.clone()), "{key}");
        let (least, most) = bounds.split_once(" to ").unwrap();
        let (below, above) = match least.parse::<i64>() {
            Ok(least) => (
                (least - 1).to_string(),
                (most.parse::<i64>().unwrap() + 1).to_string(),
            ),
            Err(_) => {
                let millis = |text: &str| text.parse::<Span>().unwrap().duration().as_millis();
                (
                    format!("{}ms", millis(least) - 1),
                    format!("{}ms", millis(most) + 1),
                )
            }
        };
        let variable = run::variable(&key);
        for inside in [least, most] {
            configured(&[], &[(&variable, inside)]).unwrap();
        }
        for outside in [&below, &above] {
            assert_names(
                &refusal(configured(&[], &[(&variable, outside)])),
                &[&key, &variable, outside, least, most],
            );
        }
    }
}
