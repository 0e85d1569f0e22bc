//! FILTER of an index: an expression that a document's fields must satisfy.

use martlet_search::Error;
use martlet_search::aggregate::expression::{Expression, Program, Scratch};
use martlet_search::aggregate::value::Value;
use martlet_search::analysis::{self, Document};
use martlet_search::schema::Definition;

/// See the [module docs](self).
#[derive(Debug)]
pub(crate) struct Filter {
    program: Program,
    /// The identifiers of the properties, by slot.
    identifiers: Vec<Box<[u8]>>,
}

impl Filter {
    /// The filter of a definition, if it has one. A property is a field of the schema by its name, or else a
    /// field of the hash or a path.
    ///
    /// # Errors
    /// The text is not an expression.
    pub(crate) fn of(definition: &Definition) -> Result<Option<Filter>, Error> {
        let Some(text) = &definition.filter else { return Ok(None) };
        let expression = Expression::parse(text)?;
        let mut identifiers = Vec::new();
        let program = expression.bind(&mut |name| {
            let field = definition.fields.iter().find(|field| *field.name == *name);
            identifiers.push(field.map_or_else(|| name.into(), |field| field.identifier.clone()));
            Some(identifiers.len() - 1)
        })?;
        Ok(Some(Filter { program, identifiers }))
    }

    /// The identifiers of its properties.
    pub(crate) fn identifiers(&self) -> impl Iterator<Item = &[u8]> {
        self.identifiers.iter().map(|identifier| &**identifier)
    }

    /// Whether a document satisfies it. One of which the expression cannot be evaluated does not.
    pub(crate) fn admits(&self, document: &dyn Document, scratch: &mut Scratch) -> bool {
        let values = self.identifiers().map(|identifier| converted(document.value(identifier)));
        let row: Vec<Option<Value>> = values.collect();
        self.program.evaluate(row.as_slice(), scratch).is_ok_and(|value| value.is_true())
    }
}

/// A value as expressions have it, if there is a value.
fn converted(value: analysis::Value<'_>) -> Option<Value> {
    Some(match value {
        analysis::Value::Missing | analysis::Value::Object => return None,
        analysis::Value::Text(text) => Value::Text(text.as_ref().into()),
        analysis::Value::Number(number) => Value::Number(number),
        analysis::Value::Bool(bool) => Value::Number(f64::from(u8::from(bool))),
        analysis::Value::Several(values) => Value::from(
            values.into_iter().map(|value| converted(value).unwrap_or_default()).collect::<Vec<_>>(),
        ),
    })
}
