//! Which types can be compared. Checked once, when a query is parsed; evaluation meets no type
//! errors.

use std::fmt;

use super::{
    Type, Value,
    check::{Check, Needle, Relation},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Relation(Relation),
    Contains,
    IContains,
    In,
    Between,
}

/// Why an operator cannot be used with the types of its operands.
pub(crate) struct TypeMismatch(pub(crate) String);

/// Makes the check of an operator and its operands: one operand, two for `between`, at least one
/// for `in`.
///
/// # Errors
/// The operator cannot be used with these types.
pub(crate) fn check(
    left: Type,
    operator: Operator,
    mut operands: Vec<Value<'static>>,
) -> Result<Check, TypeMismatch> {
    let left = match left {
        Type::Given if operands.contains(&Value::Null) => {
            return Err(mismatch(
                "every record has this value: it cannot be compared with null",
            ));
        }
        Type::Given => Type::Text,
        other => other,
    };
    if let Some(wrong) = operands
        .iter()
        .find(|operand| !allows(left, operator, operand))
    {
        return Err(mismatch(format!(
            "{} cannot be compared by '{operator}' with {}",
            type_name(left),
            literal_name(wrong)
        )));
    }
    if operands
        .windows(2)
        .any(|pair| matches!(pair, [a, b] if a.rank() != b.rank()))
    {
        return Err(mismatch("the values must all be of one type"));
    }
    if left == Type::Text || matches!(operator, Operator::Contains | Operator::IContains) {
        operands = operands.into_iter().map(written).collect();
    }
    if operator == Operator::In {
        return Ok(Check::among(operands));
    }
    let mut operands = operands.into_iter();
    match (operator, operands.next(), operands.next()) {
        (Operator::Relation(Relation::Equal), Some(Value::Null), None) => Ok(Check::IsNull),
        (Operator::Relation(_), Some(Value::Null), None) => Ok(Check::NotNull),
        (Operator::Relation(relation), Some(literal), None) => {
            Ok(Check::Relates(relation, literal))
        }
        (Operator::Contains, Some(Value::Text(text)), None) => {
            Ok(Check::Contains(Needle::Exact(text.into_owned())))
        }
        (Operator::IContains, Some(Value::Text(text)), None) => {
            Ok(Check::Contains(Needle::folded(&text)))
        }
        (Operator::Between, Some(from), Some(to)) => Ok(Check::Between(from, to)),
        _ => Err(mismatch(format!(
            "'{operator}' has the wrong number of operands"
        ))),
    }
}

fn mismatch(reason: impl Into<String>) -> TypeMismatch {
    TypeMismatch(reason.into())
}

fn allows(left: Type, operator: Operator, right: &Value) -> bool {
    use Operator::{Between, Contains, IContains, In};
    let equality = matches!(
        operator,
        Operator::Relation(Relation::Equal | Relation::NotEqual)
    );
    match right {
        Value::Null => equality,
        Value::Bool(_) => equality && matches!(left, Type::Bool | Type::Any),
        Value::Integer(_) | Value::Float(_) => match operator {
            IContains => false,
            Between => matches!(left, Type::Number | Type::Any),
            _ => matches!(left, Type::Number | Type::Any | Type::Text),
        },
        Value::Date(_) => {
            !matches!(operator, Contains | IContains) && matches!(left, Type::Date | Type::Any)
        }
        Value::Text(_) => match operator {
            Between => false,
            // Numbers are compared in their written form.
            Contains | IContains | In => matches!(left, Type::Text | Type::Any | Type::Number),
            Operator::Relation(_) => matches!(left, Type::Text | Type::Any),
        },
        Value::Set(_) => false,
    }
}

/// Writes out a literal that is compared with text. Null stays null.
fn written(literal: Value<'static>) -> Value<'static> {
    match literal.text() {
        Some(text) => Value::Text(text.into_owned().into()),
        None => literal,
    }
}

fn type_name(left: Type) -> &'static str {
    match left {
        Type::Text | Type::Given => "text",
        Type::Bool => "a boolean",
        Type::Number => "a number",
        Type::Date => "a date",
        Type::Any => "a member of a map",
        Type::Set => "a set",
    }
}

fn literal_name(right: &Value) -> &'static str {
    match right {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Integer(_) | Value::Float(_) => "a number",
        Value::Date(_) => "a date",
        Value::Text(_) => "text",
        Value::Set(_) => "a set",
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operator::Relation(Relation::Equal) => "=",
            Operator::Relation(Relation::NotEqual) => "!=",
            Operator::Relation(Relation::Less) => "<",
            Operator::Relation(Relation::AtMost) => "<=",
            Operator::Relation(Relation::Greater) => ">",
            Operator::Relation(Relation::AtLeast) => ">=",
            Operator::Contains => "contains",
            Operator::IContains => "icontains",
            Operator::In => "in",
            Operator::Between => "between",
        })
    }
}
