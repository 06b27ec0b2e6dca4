//! The clap commands of the operations, built only when a command line needs them.

use std::collections::{BTreeMap, BTreeSet};

use clap::Command;
use model::entity::{plural, singular};

use super::{
    arguments::arguments,
    grammar::{Grammar, INTERFACES, Operation},
};

/// Established short names of kinds whose paths have other names.
const ALIASES: [(&str, &str); 1] = [("external-jwt-signer", "ext-jwt-signer")];

/// One-word commands for frequent requests, each with the words that it stands for.
const SHORTCUTS: [(&str, [&str; 2]); 2] = [
    ("online", ["list", "online"]),
    ("sessions", ["list", "api-sessions"]),
];

/// A word of a command line: the operation it completes, and the words that can follow it.
#[derive(Default)]
struct Word<'g> {
    operation: Option<&'g Operation>,
    next: BTreeMap<String, Word<'g>>,
}

/// The commands of the operations whose command line begins with `first`; of all operations if none
/// does. `reserved` are the program's own commands, which a verb does not replace.
pub(crate) fn commands(
    grammar: &Grammar,
    reserved: &[String],
    first: Option<&str>,
) -> Vec<Command> {
    let mut top = Word::default();
    for operation in &grammar.operations {
        if !reserved.contains(&operation.verb) {
            top.insert_command(operation);
        }
    }
    let is_shortcut = |word: &str| SHORTCUTS.iter().any(|(shortcut, _)| *shortcut == word);
    let first = first.filter(|first| {
        top.next.contains_key(*first) || is_shortcut(first) || INTERFACES.contains(first)
    });
    let is_begun = |word: &str| first.is_none_or(|first| first == word);
    let begun = top.next.iter().filter(|(verb, _)| is_begun(verb));
    let mut commands: Vec<Command> = begun
        .map(|(verb, word)| word.command(grammar, verb, verb, true))
        .collect();
    for (word, full) in SHORTCUTS.into_iter().filter(|(word, _)| is_begun(word)) {
        let only = Word {
            operation: chosen(grammar, &full),
            next: BTreeMap::new(),
        };
        commands.push(only.command(grammar, word, word, true));
    }
    for interface in INTERFACES
        .into_iter()
        .filter(|interface| is_begun(interface))
    {
        let mut words = Word::default();
        for operation in grammar
            .operations
            .iter()
            .filter(|operation| operation.interface == interface)
        {
            words.insert_command(operation);
        }
        let below = words
            .next
            .iter()
            .map(|(verb, word)| word.command(grammar, verb, verb, true));
        let about = format!("The same commands, only for operations of the {interface} interface");
        commands.push(
            Command::new(interface)
                .about(about)
                .subcommand_required(true)
                .arg_required_else_help(true)
                .subcommands(below),
        );
    }
    commands
}

/// The operation of the chosen subcommands.
pub(crate) fn chosen<'g>(grammar: &'g Grammar, words: &[&str]) -> Option<&'g Operation> {
    let full = SHORTCUTS
        .iter()
        .find(|(word, _)| words == [*word])
        .map(|(_, full)| full.as_slice());
    let words = full.unwrap_or(words);
    let (interface, words) = match words.split_first() {
        Some((first, rest)) if INTERFACES.contains(first) => (Some(*first), rest),
        _ => (None, words),
    };
    let (verb, nouns) = words.split_first()?;
    let same = |operation: &&Operation| {
        interface.is_none_or(|name| name == operation.interface)
            && operation.verb == *verb
            && operation.nouns.len() == nouns.len()
            && operation
                .nouns
                .iter()
                .zip(nouns)
                .all(|(one, other)| singular(one) == singular(other))
    };
    grammar.operations.iter().find(same)
}

impl<'g> Word<'g> {
    /// A verb is kept as it is; nouns are entered in the singular.
    fn insert_command(&mut self, operation: &'g Operation) {
        self.next
            .entry(operation.verb.clone())
            .or_default()
            .insert(operation, operation.nouns.iter());
    }

    fn insert<'w>(
        &mut self,
        operation: &'g Operation,
        mut words: impl Iterator<Item = &'w String>,
    ) {
        match words.next() {
            Some(word) => self
                .next
                .entry(singular(word))
                .or_default()
                .insert(operation, words),
            None => drop(self.operation.get_or_insert(operation)),
        }
    }

    fn command(&self, grammar: &Grammar, word: &str, verb: &str, is_verb: bool) -> Command {
        let is_list = verb == "list" && self.operation.is_some() && !is_verb;
        let (name, other) = if is_list {
            (self.written(word), word.to_owned())
        } else {
            (word.to_owned(), plural(word))
        };
        let mut command = Command::new(name.clone());
        if !is_verb && name != other {
            command = command.alias(other);
        }
        let mut used: BTreeSet<String> = self
            .next
            .keys()
            .flat_map(|word| [word.clone(), plural(word)])
            .collect();
        let below = self.next.iter().map(|(word, next)| {
            let aliases = short(word)
                .into_iter()
                .filter(|alias| used.insert(alias.clone()) && used.insert(plural(alias)));
            let aliases: Vec<String> = aliases.flat_map(|alias| [plural(&alias), alias]).collect();
            next.command(grammar, word, verb, false).aliases(aliases)
        });
        let below: Vec<Command> = below.collect();
        let has_more = !below.is_empty();
        command = command.subcommands(below);
        match self.operation {
            Some(operation) => {
                let command = command
                    .about(operation.summary.clone())
                    .args(arguments(grammar, operation));
                if has_more {
                    command
                        .args_conflicts_with_subcommands(true)
                        .subcommand_negates_reqs(true)
                } else {
                    command
                }
            }
            None => command
                .about(
                    self.only()
                        .map_or_else(|| self.about(verb, is_verb), |one| one.summary.clone()),
                )
                .subcommand_required(true)
                .arg_required_else_help(true),
        }
    }

    /// The only operation below the word; `None` if there are several.
    fn only(&self) -> Option<&'g Operation> {
        match (self.operation, self.next.len()) {
            (Some(operation), 0) => Some(operation),
            (None, 1) => self.next.values().next()?.only(),
            _ => None,
        }
    }

    fn about(&self, verb: &str, is_verb: bool) -> String {
        match verb {
            _ if !is_verb => "Commands for related records".into(),
            "list" => "List records of a kind".into(),
            "show" => "Show one record, or a resource that exists once".into(),
            "create" => "Create a record".into(),
            "update" => "Change the given members of a record".into(),
            "replace" => "Replace all members of a record".into(),
            "delete" => "Delete records".into(),
            _ => {
                let nouns: Vec<&str> = self.next.keys().map(String::as_str).collect();
                format!("An action on one of: {}", nouns.join(", "))
            }
        }
    }

    /// The word as in paths: some lists do not have a plural name.
    fn written(&self, word: &str) -> String {
        let last = self.operation.and_then(|operation| operation.nouns.last());
        last.cloned().unwrap_or_else(|| plural(word))
    }
}

/// Short names of a kind: the initials of its words, and established names.
fn short(word: &str) -> Vec<String> {
    let letters: String = word
        .split('-')
        .filter_map(|part| part.chars().next())
        .collect();
    let known = ALIASES
        .iter()
        .filter(|(kind, _)| *kind == word)
        .map(|(_, alias)| (*alias).to_owned());
    let is_short = word.contains('-')
        && letters.len() > 1
        && letters.chars().all(|letter| letter.is_ascii_lowercase());
    known.chain(is_short.then_some(letters)).collect()
}
