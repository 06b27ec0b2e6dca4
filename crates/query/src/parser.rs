//! The parser: tokens to a query. Each rule of the grammar is a function that starts at the token
//! ahead.
//!
//! The lexer separates words and names itself, so blanks are required only next to a literal or a
//! mark.

use std::mem;

use super::{
    FilterFault, Limit, MAX_SORT, Query, Sort, Symbol, Type, Value, Vocabulary,
    check::{Check, Relation},
    predicate::{Join, Operand, Predicate, SetMembers, Step, Test},
    token::{Lexeme, Lexer, Token, Word},
    typing::{self, Operator},
};

/// The maximum length of a text, in bytes. An `in` with the ids of three pages of the largest size
/// fits. Parsing takes at most milliseconds.
pub const MAX_LENGTH: usize = 64 * 1024;

/// Limit for nested parentheses and subqueries. People write three; each level costs stack for
/// parsing, evaluating and dropping.
pub const MAX_DEPTH: usize = 50;

pub(crate) struct Parser<'t> {
    text: &'t str,
    lexer: Lexer<'t>,
    ahead: Token<'t>,
    /// The names of the current query. While a subquery is parsed, its vocabulary is set here.
    words: &'t dyn Vocabulary,
    depth: usize,
}

impl<'t> Parser<'t> {
    pub(crate) fn new(text: &'t str, words: &'t dyn Vocabulary) -> Result<Parser<'t>, FilterFault> {
        if text.len() > MAX_LENGTH {
            return Err(FilterFault::at(
                text,
                0,
                format!("longer than {MAX_LENGTH} bytes"),
            ));
        }
        let mut lexer = Lexer::new(text);
        let ahead = lexer.next()?;
        Ok(Parser {
            text,
            lexer,
            ahead,
            words,
            depth: 0,
        })
    }

    /// `[condition] [sort by fields] [skip n] [limit n]`, at least one of them.
    pub(crate) fn query(&mut self) -> Result<Query, FilterFault> {
        let conditional = !matches!(
            self.ahead.lexeme,
            Lexeme::Word(Word::Sort | Word::Skip | Word::Limit)
        );
        let predicate = if conditional {
            self.predicate()?
        } else {
            Predicate::default()
        };
        let mut sort = Vec::new();
        if self.clause(Word::Sort)? {
            self.expect(Word::By, "'by'")?;
            sort = self.fields()?;
        }
        let (skip, limit) = self.page()?;
        Ok(Query {
            predicate,
            sort,
            skip,
            limit,
        })
    }

    /// `name desc, createdAt`; only the first [`MAX_SORT`] are returned.
    pub(crate) fn fields(&mut self) -> Result<Vec<Sort>, FilterFault> {
        let mut fields = vec![self.field()?];
        while self.skip(&Lexeme::Mark(','))? {
            fields.push(self.field()?);
        }
        fields.truncate(MAX_SORT);
        Ok(fields)
    }

    fn field(&mut self) -> Result<Sort, FilterFault> {
        let name = self.ahead.clone();
        let (symbol, kind) = self.named(|words, name| words.order(name))?;
        if matches!(kind, Type::Any | Type::Set) {
            return Err(self.fault(&name, format!("cannot sort by '{}'", name.source)));
        }
        let descending = self.skip(&Lexeme::Word(Word::Desc))?;
        if !descending {
            self.skip(&Lexeme::Word(Word::Asc))?;
        }
        Ok(Sort { symbol, descending })
    }

    /// `[skip n] [limit n]`
    pub(crate) fn page(&mut self) -> Result<(Option<i64>, Option<Limit>), FilterFault> {
        let skip = if self.clause(Word::Skip)? {
            Some(self.integer()?)
        } else {
            None
        };
        let limit = if !self.clause(Word::Limit)? {
            None
        } else if self.skip(&Lexeme::Word(Word::None))? {
            Some(Limit::None)
        } else {
            Some(Limit::Count(self.integer()?))
        };
        Ok((skip, limit))
    }

    pub(crate) fn end(&self) -> Result<(), FilterFault> {
        if self.ahead.lexeme == Lexeme::End {
            Ok(())
        } else {
            Err(self.unexpected("the end"))
        }
    }

    /// `{not} test {and|or {not} test}`
    fn predicate(&mut self) -> Result<Predicate, FilterFault> {
        let mut steps = Vec::new();
        loop {
            let mut negated = false;
            while self.skip(&Lexeme::Word(Word::Not))? {
                self.blank()?;
                negated = !negated;
            }
            let test = self.test()?;
            let join = match self.ahead.lexeme {
                Lexeme::Word(Word::And) => Join::And,
                Lexeme::Word(Word::Or) => Join::Or,
                _ => Join::End,
            };
            steps.push(Step {
                negated,
                test,
                join,
            });
            if join == Join::End {
                return Ok(Predicate::new(steps));
            }
            self.blank()?;
            self.advance()?;
            self.blank()?;
        }
    }

    fn test(&mut self) -> Result<Test, FilterFault> {
        match self.ahead.lexeme {
            Lexeme::Literal(Value::Bool(value)) => {
                self.advance()?;
                Ok(Test::Constant(value))
            }
            Lexeme::Mark('(') => {
                self.advance()?;
                let group = self.nested(Self::predicate)?;
                self.mark(')')?;
                Ok(Test::Group(group))
            }
            Lexeme::Word(Word::IsEmpty) => Ok(Test::IsEmpty(self.function(Self::members)?)),
            Lexeme::Word(Word::AnyOf) => self
                .function(Self::set)
                .and_then(|set| self.comparison(Operand::AnyOf(set))),
            Lexeme::Word(Word::AllOf) => self
                .function(Self::set)
                .and_then(|set| self.comparison(Operand::AllOf(set))),
            Lexeme::Word(Word::Count) => self
                .function(Self::members)
                .and_then(|members| self.comparison(Operand::Count(members))),
            _ => self.plain(),
        }
    }

    /// A symbol with a comparison, or a boolean alone, which means `= true`.
    fn plain(&mut self) -> Result<Test, FilterFault> {
        let name = self.ahead.clone();
        let (symbol, kind) = self.symbol()?;
        if kind == Type::Set {
            return Err(self.fault(
                &name,
                format!(
                    "'{}' is a set and needs anyOf, allOf, count or isEmpty",
                    name.source
                ),
            ));
        }
        let operand = Operand::Value(symbol, kind);
        if matches!(self.ahead.lexeme, Lexeme::Relation(_)) || self.operator_word() {
            return self.comparison(operand);
        }
        let check = typing::check(
            kind,
            Operator::Relation(Relation::Equal),
            vec![Value::Bool(true)],
        );
        let check = check.map_err(|_| {
            self.fault(
                &name,
                format!("'{}' is not a boolean and needs a comparison", name.source),
            )
        })?;
        Ok(Test::Compare(operand, check))
    }

    fn operator_word(&self) -> bool {
        matches!(
            self.ahead.lexeme,
            Lexeme::Word(Word::Not | Word::In | Word::Between | Word::Contains | Word::IContains)
        )
    }

    fn comparison(&mut self, operand: Operand) -> Result<Test, FilterFault> {
        let (operator, negated) = self.operator()?;
        let first = self.ahead.clone();
        let literals = match operator {
            Operator::In => self.list()?,
            Operator::Between => self.range()?,
            _ => vec![self.literal()?],
        };
        let check = typing::check(operand.kind(), operator, literals)
            .map_err(|mismatch| self.fault(&first, mismatch.0))?;
        Ok(match check {
            // Checked for every member of a set; false for an absent value.
            Check::Contains(needle) if negated => Test::Compare(operand, Check::Lacks(needle)),
            // `not in` and `not between` negate the whole comparison: true for an absent value, and
            // for a set if `in` is false for the set.
            check if negated => Test::Not(Box::new(Test::Compare(operand, check))),
            check => Test::Compare(operand, check),
        })
    }

    /// The operator, and whether it is negated.
    fn operator(&mut self) -> Result<(Operator, bool), FilterFault> {
        let apart = self.ahead.blanks > 0;
        let negated = self.skip(&Lexeme::Word(Word::Not))?;
        let operator = match self.ahead.lexeme {
            Lexeme::Relation(relation) if !negated => Operator::Relation(relation),
            Lexeme::Word(Word::In) => Operator::In,
            Lexeme::Word(Word::Between) => Operator::Between,
            Lexeme::Word(Word::Contains) => Operator::Contains,
            Lexeme::Word(Word::IContains) => Operator::IContains,
            _ => return Err(self.unexpected("an operator")),
        };
        if !apart && matches!(operator, Operator::In | Operator::Between) {
            return Err(self.unexpected("a blank"));
        }
        // OpenZiti reads `not in` as one word with a single blank.
        if negated && operator == Operator::In && self.ahead.blanks != 1 {
            return Err(self.unexpected("a single blank"));
        }
        self.advance()?;
        if !matches!(operator, Operator::Relation(_)) {
            self.blank()?;
        }
        Ok((operator, negated))
    }

    /// `[literal, literal]`
    fn list(&mut self) -> Result<Vec<Value<'static>>, FilterFault> {
        self.mark('[')?;
        let mut literals = vec![self.literal()?];
        while self.skip(&Lexeme::Mark(','))? {
            literals.push(self.literal()?);
        }
        self.mark(']')?;
        Ok(literals)
    }

    /// `literal and literal`
    fn range(&mut self) -> Result<Vec<Value<'static>>, FilterFault> {
        let from = self.literal()?;
        self.blank()?;
        self.expect(Word::And, "'and'")?;
        self.blank()?;
        Ok(vec![from, self.literal()?])
    }

    /// A function and its argument in parentheses; starts at the function's name.
    fn function<T>(
        &mut self,
        argument: fn(&mut Self) -> Result<T, FilterFault>,
    ) -> Result<T, FilterFault> {
        self.advance()?;
        if self.ahead.blanks > 0 {
            return Err(self.unexpected("'(' directly after the function name"));
        }
        self.mark('(')?;
        let argument = argument(self)?;
        self.mark(')')?;
        Ok(argument)
    }

    fn set(&mut self) -> Result<Symbol, FilterFault> {
        let name = self.ahead.clone();
        let (symbol, kind) = self.symbol()?;
        if kind == Type::Set {
            Ok(symbol)
        } else {
            Err(self.fault(&name, format!("'{}' is not a set", name.source)))
        }
    }

    /// `set` or `from set where query`
    fn members(&mut self) -> Result<SetMembers, FilterFault> {
        if !self.skip(&Lexeme::Word(Word::From))? {
            return Ok(SetMembers {
                set: self.set()?,
                matching: None,
            });
        }
        let name = self.ahead.clone();
        let set = self.set()?;
        let linked = self.words.linked(&set).ok_or_else(|| {
            self.fault(
                &name,
                format!("'{}' is not a set of references to records", name.source),
            )
        })?;
        self.expect(Word::Where, "'where'")?;
        self.blank()?;
        let outer = mem::replace(&mut self.words, linked);
        let query = self.nested(Self::query)?;
        self.words = outer;
        Ok(SetMembers {
            set,
            matching: Some(Box::new(query)),
        })
    }

    fn nested<T>(
        &mut self,
        rule: fn(&mut Self) -> Result<T, FilterFault>,
    ) -> Result<T, FilterFault> {
        if self.depth == MAX_DEPTH {
            return Err(FilterFault::at(
                self.text,
                self.ahead.start,
                format!("nested deeper than {MAX_DEPTH} levels"),
            ));
        }
        self.depth += 1;
        let read = rule(self)?;
        self.depth -= 1;
        Ok(read)
    }

    fn symbol(&mut self) -> Result<(Symbol, Type), FilterFault> {
        self.named(|words, name| words.resolve(name))
    }

    fn named(
        &mut self,
        look: fn(&dyn Vocabulary, &str) -> Option<(Symbol, Type)>,
    ) -> Result<(Symbol, Type), FilterFault> {
        let Lexeme::Name(name) = self.ahead.lexeme else {
            return Err(self.unexpected("a name"));
        };
        let resolved = look(self.words, name)
            .ok_or_else(|| self.fault(&self.ahead, format!("unknown symbol '{name}'")))?;
        self.advance()?;
        Ok(resolved)
    }

    fn literal(&mut self) -> Result<Value<'static>, FilterFault> {
        let Lexeme::Literal(literal) = &self.ahead.lexeme else {
            return Err(self.unexpected("a value"));
        };
        let literal = literal.clone();
        self.advance()?;
        Ok(literal)
    }

    fn integer(&mut self) -> Result<i64, FilterFault> {
        self.blank()?;
        let Lexeme::Literal(Value::Integer(number)) = self.ahead.lexeme else {
            return Err(self.unexpected("a whole number"));
        };
        self.advance()?;
        Ok(number)
    }

    /// Whether this clause of the query begins here. A blank must precede it, unless it begins the
    /// query.
    fn clause(&mut self, word: Word) -> Result<bool, FilterFault> {
        if self.ahead.lexeme == Lexeme::Word(word) && self.ahead.start > 0 {
            self.blank()?;
        }
        self.skip(&Lexeme::Word(word))
    }

    fn expect(&mut self, word: Word, wanted: &str) -> Result<(), FilterFault> {
        if self.skip(&Lexeme::Word(word))? {
            Ok(())
        } else {
            Err(self.unexpected(wanted))
        }
    }

    fn mark(&mut self, mark: char) -> Result<(), FilterFault> {
        if self.skip(&Lexeme::Mark(mark))? {
            Ok(())
        } else {
            Err(self.unexpected(&format!("'{mark}'")))
        }
    }

    fn skip(&mut self, lexeme: &Lexeme) -> Result<bool, FilterFault> {
        let found = self.ahead.lexeme == *lexeme;
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn blank(&self) -> Result<(), FilterFault> {
        if self.ahead.blanks > 0 {
            Ok(())
        } else {
            Err(self.unexpected("a blank"))
        }
    }

    fn advance(&mut self) -> Result<(), FilterFault> {
        self.ahead = self.lexer.next()?;
        Ok(())
    }

    fn unexpected(&self, wanted: &str) -> FilterFault {
        let found = if self.ahead.lexeme == Lexeme::End {
            "the end".to_owned()
        } else {
            format!("'{}'", self.ahead.source)
        };
        self.fault(&self.ahead, format!("expected {wanted}, found {found}"))
    }

    fn fault(&self, at: &Token, message: String) -> FilterFault {
        FilterFault::at(self.text, at.start, message).naming(at.source)
    }
}
