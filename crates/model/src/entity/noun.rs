//! English plurals of the names of kinds, and names as words of a command line.

/// `auth-policies` for `auth-policy`.
pub fn plural(noun: &str) -> String {
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o']) => format!("{stem}ies"),
        _ => format!("{noun}s"),
    }
}

/// `auth-policy` for `auth-policies`; other nouns are returned unchanged.
pub fn singular(noun: &str) -> String {
    match (noun.strip_suffix("ies"), noun.strip_suffix('s')) {
        (Some(stem), _) => format!("{stem}y"),
        (None, Some(stem)) if !stem.ends_with('s') => stem.to_owned(),
        _ => noun.to_owned(),
    }
}

/// Converts to kebab case: `authPolicyId` to `auth-policy-id`.
pub fn kebab(name: &str) -> String {
    let mut out = String::new();
    let mut before = ' ';
    for letter in name.chars() {
        if letter.is_ascii_uppercase()
            && before.is_ascii_alphanumeric()
            && !before.is_ascii_uppercase()
        {
            out.push('-');
        }
        out.push(letter.to_ascii_lowercase());
        before = letter;
    }
    out
}
