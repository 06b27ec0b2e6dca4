//! Which file of the library uses which, read from paths and imports. A name imported from a file
//! that only re-exports it counts for the file that defines it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// A module, by its path below the crate: `["store", "tx", "read"]`.
pub type Module = Vec<String>;

/// The module of a file below `src/`.
pub fn module_of(file: &Path) -> Module {
    let mut parts: Module = file
        .with_extension("")
        .iter()
        .map(|part| part.to_str().unwrap().to_owned())
        .collect();
    if parts.last().is_some_and(|last| last == "mod") || parts == ["lib"] {
        parts.pop();
    }
    parts
}

/// The macro that declares the files of kinds and re-exports their types: `kinds! { config::Config:
/// written, ... }`.
const KINDS: &str = "kinds";

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    /// `::`
    Path,
    Symbol(char),
}

/// Words and signs of a file, without comments, string literals and the unit tests at its end.
fn tokens(text: &str) -> Vec<Token> {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
    let (letters, mut at, mut found) = (text.chars().collect::<Vec<char>>(), 0, Vec::new());
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    while let Some(&c) = letters.get(at) {
        let next = letters.get(at + 1).copied().unwrap_or_default();
        if c == '/' && next == '/' {
            at += letters[at..].iter().take_while(|c| **c != '\n').count();
        } else if let Some(length) = text_length(&letters[at..]) {
            at += length;
        } else if is_word(c) {
            let word: String = letters[at..].iter().take_while(|c| is_word(**c)).collect();
            at += word.chars().count();
            found.push(Token::Word(word));
        } else if c == ':' && next == ':' {
            found.push(Token::Path);
            at += 2;
        } else {
            if !c.is_whitespace() {
                found.push(Token::Symbol(c));
            }
            at += 1;
        }
    }
    found
}

/// The length of the string or character literal that begins here, if any.
fn text_length(letters: &[char]) -> Option<usize> {
    let mut at = usize::from(letters[0] == 'b');
    if letters.get(at) == Some(&'r') {
        let signs = letters[at + 1..].iter().take_while(|c| **c == '#').count();
        if letters.get(at + 1 + signs) == Some(&'"') {
            let end: String = std::iter::once('"')
                .chain(std::iter::repeat_n('#', signs))
                .collect();
            let rest: String = letters[at + 2 + signs..].iter().collect();
            let inside = rest
                .find(&end)
                .map_or(rest.chars().count(), |bytes| rest[..bytes].chars().count());
            return Some(at + 2 + signs + inside + end.len());
        }
    }
    if letters.get(at) == Some(&'"') {
        at += 1;
        while letters.get(at).is_some_and(|c| *c != '"') {
            at += if letters[at] == '\\' { 2 } else { 1 };
        }
        return Some(at + 1);
    }
    if letters[0] != '\'' {
        return None;
    }
    match (letters.get(1), letters.get(2)) {
        (Some('\\'), _) => Some(
            letters[2..]
                .iter()
                .position(|c| *c == '\'')
                .map_or(letters.len(), |end| end + 3),
        ),
        (Some(_), Some('\'')) => Some(3),
        _ => None,
    }
}

/// A path that a `use` names, and its name in the file.
#[derive(Debug, Clone)]
struct Import {
    path: Vec<String>,
    name: String,
    is_public: bool,
}

/// The imports and paths of a file.
#[derive(Default)]
struct Source {
    imports: Vec<Import>,
    /// Paths in code, and single words that may be imported names.
    paths: Vec<Vec<String>>,
}

fn read(text: &str) -> Source {
    let (tokens, mut at, mut source) = (tokens(text), 0, Source::default());
    while at < tokens.len() {
        let before = at.checked_sub(1).and_then(|before| tokens.get(before));
        match &tokens[at] {
            Token::Word(word)
                if word == "use" && !matches!(before, Some(Token::Symbol('<' | ','))) =>
            {
                let is_public = matches!(before, Some(Token::Word(before)) if before == "pub")
                    || before == Some(&Token::Symbol(')'));
                let end = tokens[at..]
                    .iter()
                    .position(|token| *token == Token::Symbol(';'))
                    .map_or(tokens.len(), |end| at + end);
                tree(&tokens[at + 1..end], &[], is_public, &mut source.imports);
                at = end;
            }
            Token::Word(word)
                if word == KINDS && tokens.get(at + 1) == Some(&Token::Symbol('!')) =>
            {
                let end = tokens[at..]
                    .iter()
                    .position(|token| *token == Token::Symbol('}'))
                    .map_or(tokens.len(), |end| at + end);
                for part in parts(&tokens[(at + 3).min(end)..end]) {
                    let path = part
                        .split(|token| *token == Token::Symbol(':'))
                        .next()
                        .unwrap_or_default();
                    tree(path, &[], true, &mut source.imports);
                }
                at = end;
            }
            Token::Word(word)
                if before != Some(&Token::Path) && before != Some(&Token::Symbol('.')) =>
            {
                let mut path = vec![word.clone()];
                while let (Some(Token::Path), Some(Token::Word(next))) =
                    (tokens.get(at + 1), tokens.get(at + 2))
                {
                    path.push(next.clone());
                    at += 2;
                }
                source.paths.push(path);
            }
            _ => {}
        }
        at += 1;
    }
    source
}

/// The paths of a tree such as `a::{b, c::{self, d as e}}`.
fn tree(tokens: &[Token], before: &[String], is_public: bool, found: &mut Vec<Import>) {
    let (mut path, mut at) = (before.to_vec(), 0);
    while at < tokens.len() {
        match &tokens[at] {
            Token::Symbol('{') => {
                for part in parts(&tokens[at + 1..tokens.len() - 1]) {
                    tree(part, &path, is_public, found);
                }
                return;
            }
            Token::Word(word) if word == "as" => {
                let Some(Token::Word(name)) = tokens.get(at + 1) else {
                    return;
                };
                found.push(Import {
                    path,
                    name: name.clone(),
                    is_public,
                });
                return;
            }
            Token::Word(word) => path.push(word.clone()),
            _ => {}
        }
        at += 1;
    }
    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
        path.pop();
    }
    found.extend(path.last().cloned().map(|name| Import {
        path,
        name,
        is_public,
    }));
}

/// The parts of a group, between its commas.
fn parts(tokens: &[Token]) -> Vec<&[Token]> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Symbol('{') => depth += 1,
            Token::Symbol('}') => depth -= 1,
            Token::Symbol(',') if depth == 0 => {
                found.push(&tokens[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&tokens[start..]);
    found.retain(|part| !part.is_empty());
    found
}

/// Which file uses which.
pub struct Imports {
    source: BTreeMap<Module, Source>,
    /// Per file, name to the path from the crate's root that it was imported as.
    names: BTreeMap<Module, BTreeMap<String, Module>>,
}

impl Imports {
    /// From files and their contents.
    pub fn of(sources: &[(PathBuf, String)]) -> Self {
        let source: BTreeMap<Module, Source> = sources
            .iter()
            .map(|(file, text)| (module_of(file), read(text)))
            .collect();
        let mut all = Self {
            source,
            names: BTreeMap::new(),
        };
        let names = |(module, source): (&Module, &Source)| {
            let absolute =
                |import: &Import| Some((import.name.clone(), all.absolute(module, &import.path)?));
            (
                module.clone(),
                source.imports.iter().filter_map(absolute).collect(),
            )
        };
        all.names = all.source.iter().map(names).collect();
        all
    }

    /// The path from the crate's root, if the path is within the crate.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Module> {
        let mut base = module.clone();
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([base, rest.to_vec()].concat()),
            "super" => {
                base.pop();
                let rest: Vec<String> = rest
                    .iter()
                    .skip_while(|part| *part == "super" && base.pop().is_some())
                    .cloned()
                    .collect();
                Some([base, rest].concat())
            }
            child => {
                base.push(child.to_owned());
                self.source
                    .contains_key(&base)
                    .then(|| [base, rest.to_vec()].concat())
            }
        }
    }

    /// The file that defines the item at a path from the root.
    fn defining(&self, path: &[String], depth: usize) -> Option<Module> {
        let length = (0..=path.len())
            .rev()
            .find(|length| self.source.contains_key(&path[..*length]))?;
        let (module, rest) = path.split_at(length);
        let reexported = rest
            .first()
            .and_then(|name| self.names.get(module)?.get(name));
        match reexported {
            Some(target) if depth < 10 && target[..] != path[..target.len().min(path.len())] => {
                self.defining(&[target.as_slice(), &rest[1..]].concat(), depth + 1)
            }
            _ => Some(module.to_vec()),
        }
    }

    /// The files that a file uses. A re-export alone is not a use.
    fn uses(&self, module: &Module) -> BTreeSet<Module> {
        let source = &self.source[module];
        let names = &self.names[module];
        let is_named = |name: &String| source.paths.iter().any(|path| path[0] == *name);
        let imported = source
            .imports
            .iter()
            .filter(|import| !import.is_public || is_named(&import.name));
        let imported = imported.filter_map(|import| self.absolute(module, &import.path));
        let in_code = source
            .paths
            .iter()
            .filter(|path| path.len() > 1)
            .filter_map(|path| match names.get(&path[0]) {
                Some(known) => Some([known.as_slice(), &path[1..]].concat()),
                None => self.absolute(module, path),
            });
        imported
            .chain(in_code)
            .filter_map(|path| self.defining(&path, 0))
            .filter(|used| used != module && !used.is_empty())
            .collect()
    }

    /// Which of the known crates the files name.
    pub fn crates(&self, known: &[String]) -> BTreeSet<String> {
        let is_outside = |module: &Module, path: &[String]| {
            known.contains(&path[0]) && self.absolute(module, path).is_none()
        };
        let mut found = BTreeSet::new();
        for (module, source) in &self.source {
            let imported = source.imports.iter().map(|import| &import.path);
            // An imported name hides a crate of the same name.
            let is_imported =
                |name: &String| source.imports.iter().any(|import| import.name == *name);
            let in_code = source
                .paths
                .iter()
                .filter(|path| path.len() > 1 && !is_imported(&path[0]));
            found.extend(
                imported
                    .chain(in_code)
                    .filter(|path| is_outside(module, path))
                    .map(|path| path[0].clone()),
            );
        }
        found
    }

    /// Each file with the files that it uses.
    pub fn all(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        self.source
            .keys()
            .map(|module| (module.clone(), self.uses(module)))
            .collect()
    }
}

/// The cycles: sets of files that lead to each other.
pub fn cycles(uses: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<BTreeSet<Module>> {
    let reached = |from: &Module| {
        let (mut open, mut found) = (vec![from], BTreeSet::new());
        while let Some(module) = open.pop() {
            for next in uses.get(module).into_iter().flatten() {
                if found.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        found
    };
    let reached: BTreeMap<&Module, BTreeSet<Module>> = uses
        .keys()
        .map(|module| (module, reached(module)))
        .collect();
    let mut found = BTreeSet::new();
    for (module, below) in reached
        .iter()
        .filter(|(module, below)| below.contains(**module))
    {
        let cycle = below.iter().filter(|other| {
            reached
                .get(other)
                .is_some_and(|back| back.contains(*module))
        });
        found.insert(cycle.cloned().collect::<BTreeSet<Module>>());
    }
    found.into_iter().collect()
}
