//! What is refused, and what the refusal says.

use query::*;

use super::rows::*;

#[test]
fn foreign_syntax_is_refused() {
    refused(
        r#"
bogus = 1
name
name =
= "x"
name = x
name = 'x'
name == "x"
name <> "x"
name = "x
name = "x" and
name = "x" "y"
name in []
name in "x"
name in ["x", 1]
name in ["x",]
name in [null]
name in["x"]
name not  in ["x"]
name not = "x"
name contains"x"
name contains null
name contains ["x"]
name like "x"
name > null
name = true
name = datetime(2020-01-01T00:00:00Z)
.tags
name.x = 1
true true
limit
skip
sort
sort by
limit a
1 = 1
true = true
null
name="a"or name="b"
cost = 1and true
cost between 1and 2
nameand = 1
select * from services
name = "a" -- comment
true #
$name = "x"
name = "x" ;
name ! = "x"
true %
tru?e
limit 2 skip 1
skip 1 sort by name
sort by name sort by id
limit 1.5
limit5
skip none
limit 99999999999999999999
sort name
sort by name descending
sort by name,
sort by ,name
sort by bogus
sort by roleAttributes
sort by tags.n
sort by name limit
name = "x"limit 5
"#,
    );
    for text in [
        " ",
        "name = \"\n\"",
        "name\u{a0}= \"x\"",
        "\u{feff}true",
        "\u{0}",
    ] {
        assert!(parse(text).is_err(), "accepted: {text:?}");
    }
    assert!(parse("").is_ok_and(|query| query.predicate.matches(&Row::new(""))));
    assert!(parse("\n name = \"x\"\r\n\tsort by name ").is_ok());
}

#[test]
fn a_fault_says_what_and_where() {
    let fault = |text| parse(text).expect_err(text);
    let unknown = fault("name = \"é\" and\n  (bogus = 1)");
    assert_eq!(
        unknown.to_string(),
        "unknown symbol 'bogus' at line 2, column 4"
    );
    assert_eq!(
        (unknown.symbol.as_deref(), unknown.line, unknown.column),
        (Some("bogus"), 2, 4)
    );
    assert_eq!(
        fault("name = \"é\" x").to_string(),
        "expected the end, found 'x' at line 1, column 12"
    );
    assert_eq!(
        fault("name =").to_string(),
        "expected a value, found the end at line 1, column 7"
    );
    assert_eq!(
        fault("name # 1").to_string(),
        "unknown character at line 1, column 6"
    );
    assert_eq!(
        fault("cost = \"1\"").to_string(),
        "a number cannot be compared by '=' with text at line 1, column 8"
    );
    assert_eq!(fault("true sort by bogus").parameter, Parameter::Filter);
    assert_eq!(
        parse_sort("bogus", &SERVICES).expect_err("bogus").parameter,
        Parameter::Sort
    );
}
