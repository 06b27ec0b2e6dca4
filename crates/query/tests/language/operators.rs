//! Words between conditions, comparisons of text, and escapes.

use super::rows::*;

#[test]
fn operators_take_everything_right() {
    let table = "
        a and b or c => a-c ab- abc
        a or b and c => -bc a-- a-c ab- abc
        (a and b) or c => --c -bc a-c ab- abc
        (a or b) and c => -bc a-c abc
        a and (b or c) => a-c ab- abc
        a and b and c => abc
        a or b or c => --c -b- -bc a-- a-c ab- abc
        not a and b => --- --c -b- -bc a-- a-c
        (not a) and b => -b- -bc
        not (a and b) => --- --c -b- -bc a-- a-c
        a and not b or c => a--
        not a or b => --- --c
        not a or b and not c => --- --c -bc
        a and b or not c and a => a-- ab- abc
        not not a => a-- a-c ab- abc
        not a and not b => --- --c -b- -bc ab- abc
        a or b and c or a => -bc a-- a-c ab- abc
        c and a or b and not a => -bc a-c abc
        (a or c) and (b or c) => --c -bc a-c ab- abc
        ((a)) => a-- a-c ab- abc
        ( a ) and ( ( not b ) ) => a-- a-c
        a  and\tb or c => a-c ab- abc
        a AND b Or NOT c => a-- ab- abc
        not false => --- --c -b- -bc a-- a-c ab- abc
        TRUE and False =>
        not(a) => refused
        (a)and(b) => refused
        (a) and(b) => refused
        a and => refused
        and a => refused
        a b => refused
        a and or b => refused
        a not b => refused
        not => refused
        () => refused
        (a => refused
        a) => refused
        a andb => refused
        a && b => refused
        a, b => refused
        \"a\" => refused
        a xor b => refused
        a AND => refused";
    let named = table.lines().map(|line| {
        let (text, labels) = line.split_once("=>").unwrap_or_default();
        let words = text
            .split(' ')
            .map(|word| match word.trim_matches(['(', ')']) {
                letter @ ("a" | "b" | "c") => word.replace(letter, &format!("tags.{letter}")),
                _ => word
                    .replace("a  and\tb", "tags.a  and\ttags.b")
                    .replace("and\tb", "and\ttags.b"),
            });
        if text.is_empty() {
            String::new()
        } else {
            format!("{}=>{labels}\n", words.collect::<Vec<_>>().join(" "))
        }
    });
    check(&letters(), &named.collect::<String>());
}

#[test]
fn text_is_compared_by_its_bytes() {
    let names = [
        "alpha",
        "beta",
        "Gamma",
        "delta4",
        "quote\"d",
        "back\\slash",
        "tab\there",
        "ünï✓",
        "10",
        "9",
    ];
    let labels = [
        "alpha", "beta", "Gamma", "delta4", "quote", "back", "tab", "uni", "10", "9",
    ];
    let rows: Vec<_> = labels
        .iter()
        .zip(names)
        .map(|(label, name)| Row::new(label).with("name", name))
        .collect();
    check(
        &rows,
        r#"
        name = "alpha" => alpha
        name="alpha" => alpha
        name  =  "alpha" => alpha
        name = "ALPHA" =>
        name != "alpha" => beta Gamma delta4 quote back tab uni 10 9
        name < "b" => alpha Gamma 10 9
        name <= "beta" => alpha beta Gamma back 10 9
        name > "quote" => quote tab uni
        name >= "quote\"d" => quote tab uni
        name > "Z" and name < "c" => alpha beta back
        name > "z" => uni
        NAME = "alpha" => refused
        name contains "a" => alpha beta Gamma delta4 back tab
        name contains "A" =>
        name CONTAINS "lph" => alpha
        name contains "" => alpha beta Gamma delta4 quote back tab uni 10 9
        name not contains "a" => quote uni 10 9
        name NOT  CONTAINS "a" => quote uni 10 9
        name icontains "A" => alpha beta Gamma delta4 back tab
        name icontains "gAMMA" => Gamma
        name icontains "ÜNÏ" => uni
        name icontains "" => alpha beta Gamma delta4 quote back tab uni 10 9
        name not icontains "A" => quote uni 10 9
        name in ["alpha"] => alpha
        name In [ "none" ,"beta","alpha" ] => alpha beta
        name not in ["alpha", "beta"] => Gamma delta4 quote back tab uni 10 9
        name not	in ["alpha", "beta"] => Gamma delta4 quote back tab uni 10 9
        name = null =>
        name != NULL => alpha beta Gamma delta4 quote back tab uni 10 9
        name contains 4 => delta4
        name = 10 => 10
        name = 10.0 => 10
        name > 10 => alpha beta Gamma delta4 quote back tab uni 9
        name in [9, 10] => 10 9
        name in [9.5, 10] => 10
        name < 9.5 => 10 9
        name contains "\"" => quote
        name contains "\\" => back
        name = "back\\slash" => back
        name contains "\t" => tab
        name contains "✓" => uni
        name contains "n\u00ef" => refused
        name = "\q" => refused
        name icontains 4 => refused
        name between "a" and "b" => refused
        name between 1 and 2 => refused"#,
    );
}

#[test]
fn escapes_follow_the_recorded_order() {
    for (literal, text) in [
        (r"a\\b", r"a\b"),
        (r"\\n", "\n"),
        (r#"\\\""#, r#"\""#),
        (r"\f\n\r\t", "\x0c\n\r\t"),
        (r"\\\\", r"\"),
    ] {
        assert_eq!(
            ask(
                &[Row::new("found").with("name", text)],
                &format!("name = \"{literal}\"")
            ),
            "found",
            "{literal}"
        );
    }
}

/// The only way to write a backslash before a letter, and control characters. What is recorded
/// stays: `\u` and `\q` are errors.
#[test]
fn numbers_stand_for_any_character() {
    let texts = [
        (r"CORP\x{5c}nina", r"CORP\nina"),
        (r"\x{5c}\x{5C}server\x{5c}share", r"\\server\share"),
        (r"a\x{1b}b\x{0}\x{00000a}", "a\u{1b}b\0\n"),
        (
            r"\x{202e}\x{1f600}\x{10ffff}",
            "\u{202e}\u{1f600}\u{10ffff}",
        ),
        (r#"\"\x{5c}\"\n"#, "\"\\\"\n"),
        (r"\\x{5c}", r"\x{5c}"),
    ];
    for (literal, text) in texts {
        assert_eq!(
            ask(
                &[Row::new("found").with("name", text)],
                &format!("name = \"{literal}\"")
            ),
            "found",
            "{literal}"
        );
    }
    for unfit in [
        "x",
        "x5c",
        "x{}",
        "x{5c",
        "x{5c]",
        "x{0000041}",
        "x{110000}",
        "x{d800}",
        "x{g}",
        "x{-1}",
        "x{+5}",
        "u005c",
        "X{5c}",
    ] {
        assert_eq!(
            ask(
                &[Row::new("found").with("name", "a")],
                &format!("name = \"\\{unfit}\"")
            ),
            "refused",
            "{unfit}"
        );
    }
}
