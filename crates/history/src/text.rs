//! Histories as text: JSON, one operation a line. Empty lines and lines that begin with `#` are skipped.
//!
//! ```text
//! {"kind":"register","key":"k","client":1,"node":"a","call":"write","value":"x","invoked":10,"completed":25,"reply":"done"}
//! {"kind":"register","key":"k","client":2,"node":"b","call":"read","invoked":30,"completed":35,"reply":{"value":"x"}}
//! {"kind":"counter","key":"n","client":3,"node":"a","call":"increment","by":1,"invoked":40,"outcome":"unknown"}
//! ```

use crate::record::{Call, Ending, ObjectKind, Operation, Reply};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A line that is no operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {error}")]
pub struct ParseError {
    /// The line's number, from 1.
    pub line: usize,
    /// The fault.
    pub error: LineError,
}

/// The fault of a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The line is no JSON object.
    #[error("expected a JSON object: {0}")]
    Json(String),
    /// A field is missing.
    #[error("the field {0:?} is missing")]
    Missing(&'static str),
    /// A field has a value of the wrong type, or outside its range.
    #[error("the field {field:?} must be {expected}")]
    Type {
        /// The field.
        field: &'static str,
        /// The values it may have.
        expected: &'static str,
    },
    /// A field that the line's call does not have.
    #[error("there is no field {0:?} here")]
    Superfluous(String),
    /// The object's kind has no such call, or the call no such reply.
    #[error("a {kind} has no {call:?} with this reply")]
    Mismatch {
        /// The kind.
        kind: &'static str,
        /// The call.
        call: &'static str,
    },
    /// The operation completed before it was invoked.
    #[error("\"completed\" is before \"invoked\"")]
    Times,
}

const KINDS: [(&str, ObjectKind); 5] = [
    ("register", ObjectKind::Register),
    ("counter", ObjectKind::Counter),
    ("set", ObjectKind::Set),
    ("list", ObjectKind::List),
    ("transfer", ObjectKind::Transfer),
];

/// The name of a kind.
pub fn kind_name(kind: ObjectKind) -> &'static str {
    KINDS.iter().find(|(_, one)| *one == kind).map_or("", |(name, _)| name)
}

/// The name of a call.
pub fn call_name(call: &Call) -> &'static str {
    match call {
        Call::Write(_) => "write",
        Call::Read => "read",
        Call::CompareAndSet { .. } => "compare-and-set",
        Call::Increment(_) => "increment",
        Call::Add(_) => "add",
        Call::Remove(_) => "remove",
        Call::Push(_) => "push",
        Call::Pop => "pop",
        Call::Open(_) => "open",
        Call::Move { .. } => "move",
    }
}

/// The operations of a text; the error names the first bad line.
pub fn parse(text: &str) -> Result<Vec<Operation>, ParseError> {
    let lines =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|(index, line)| parse_line(line).map_err(|error| ParseError { line: index + 1, error }))
        .collect()
}

/// The operation of one line.
pub fn parse_line(line: &str) -> Result<Operation, LineError> {
    let fields = serde_json::from_str(line).map_err(|error| LineError::Json(error.to_string()))?;
    let mut fields = Fields(fields);
    let kind = fields.text("kind")?;
    let expected = "\"register\", \"counter\", \"set\", \"list\" or \"transfer\"";
    let kind =
        KINDS.iter().find(|(name, _)| *name == kind).ok_or(LineError::Type { field: "kind", expected })?.1;
    let operation = Operation {
        kind,
        key: fields.text("key")?,
        client: fields.time("client")?,
        node: if fields.0.contains_key("node") { fields.text("node")? } else { String::new() },
        call: fields.call()?,
        invoked_ns: fields.time("invoked")?,
        ending: fields.ending()?,
    };
    if let Some(name) = fields.0.keys().next() {
        return Err(LineError::Superfluous(name.clone()));
    }
    if operation.completed_ns() < operation.invoked_ns {
        return Err(LineError::Times);
    }
    if !operation.is_well_formed() {
        return Err(LineError::Mismatch { kind: kind_name(kind), call: call_name(&operation.call) });
    }
    Ok(operation)
}

/// The fields of a line that have not been read.
struct Fields(Map<String, Value>);

impl Fields {
    fn take(&mut self, field: &'static str) -> Result<Value, LineError> {
        self.0.remove(field).ok_or(LineError::Missing(field))
    }

    fn text(&mut self, field: &'static str) -> Result<String, LineError> {
        text_of(self.take(field)?, field)
    }

    /// A time or another number without sign.
    fn time(&mut self, field: &'static str) -> Result<u64, LineError> {
        self.take(field)?
            .as_u64()
            .ok_or(LineError::Type { field, expected: "a whole number from 0 to 2^64 - 1" })
    }

    fn number(&mut self, field: &'static str) -> Result<i64, LineError> {
        number_of(&self.take(field)?, field)
    }

    fn optional_text(&mut self, field: &'static str) -> Result<Option<String>, LineError> {
        optional_text_of(self.take(field)?, field)
    }

    fn call(&mut self) -> Result<Call, LineError> {
        Ok(match self.text("call")?.as_str() {
            "write" => Call::Write(self.text("value")?),
            "read" => Call::Read,
            "compare-and-set" => {
                Call::CompareAndSet { expected: self.optional_text("expected")?, new: self.text("new")? }
            }
            "increment" => Call::Increment(self.number("by")?),
            "add" => Call::Add(self.text("member")?),
            "remove" => Call::Remove(self.text("member")?),
            "push" => Call::Push(self.text("item")?),
            "pop" => Call::Pop,
            "open" => Call::Open(balances_of(self.take("balances")?, "balances")?),
            "move" => {
                Call::Move { from: self.text("from")?, to: self.text("to")?, amount: self.number("amount")? }
            }
            _ => {
                let expected = "\"write\", \"read\", \"compare-and-set\", \"increment\", \"add\", \"remove\", \
                                \"push\", \"pop\", \"open\" or \"move\"";
                return Err(LineError::Type { field: "call", expected });
            }
        })
    }

    fn ending(&mut self) -> Result<Ending, LineError> {
        if !self.0.contains_key("outcome") {
            return Ok(Ending::Replied {
                at_ns: self.time("completed")?,
                reply: reply_of(self.take("reply")?)?,
            });
        }
        match self.text("outcome")?.as_str() {
            "failed" => Ok(Ending::Failed),
            "unknown" => Ok(Ending::Unknown),
            _ => Err(LineError::Type { field: "outcome", expected: "\"failed\" or \"unknown\"" }),
        }
    }
}

fn text_of(value: Value, field: &'static str) -> Result<String, LineError> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(LineError::Type { field, expected: "a string" }),
    }
}

fn optional_text_of(value: Value, field: &'static str) -> Result<Option<String>, LineError> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        _ => Err(LineError::Type { field, expected: "a string or null" }),
    }
}

fn number_of(value: &Value, field: &'static str) -> Result<i64, LineError> {
    value.as_i64().ok_or(LineError::Type { field, expected: "a whole number of 64 bits" })
}

fn texts_of(value: Value, field: &'static str) -> Result<Vec<String>, LineError> {
    match value {
        Value::Array(values) => values.into_iter().map(|value| text_of(value, field)).collect(),
        _ => Err(LineError::Type { field, expected: "an array of strings" }),
    }
}

fn balances_of(value: Value, field: &'static str) -> Result<BTreeMap<String, i64>, LineError> {
    match value {
        Value::Object(balances) => balances
            .into_iter()
            .map(|(account, balance)| Ok((account, number_of(&balance, field)?)))
            .collect(),
        _ => Err(LineError::Type { field, expected: "an object of whole numbers" }),
    }
}

fn reply_of(value: Value) -> Result<Reply, LineError> {
    let expected = "\"done\" or an object with one of \"value\", \"changed\", \"number\", \"members\", \"items\", \
                    \"balances\"";
    let wrong = LineError::Type { field: "reply", expected };
    let mut fields = match value {
        Value::String(text) if text == "done" => return Ok(Reply::Done),
        Value::Object(fields) if fields.len() == 1 => fields.into_iter(),
        _ => return Err(wrong),
    };
    let Some((name, value)) = fields.next() else { return Err(wrong) };
    match name.as_str() {
        "value" => optional_text_of(value, "value").map(Reply::Value),
        "changed" => value
            .as_bool()
            .map(Reply::Changed)
            .ok_or(LineError::Type { field: "changed", expected: "a boolean" }),
        "number" => number_of(&value, "number").map(Reply::Number),
        "members" => texts_of(value, "members").map(|members| Reply::Members(members.into_iter().collect())),
        "items" => texts_of(value, "items").map(Reply::Items),
        "balances" => balances_of(value, "balances").map(Reply::Balances),
        _ => Err(wrong),
    }
}

/// The line of an operation, without its end.
pub fn line(operation: &Operation) -> String {
    let mut fields = json!({
        "kind": kind_name(operation.kind),
        "key": operation.key,
        "client": operation.client,
        "call": call_name(&operation.call),
        "invoked": operation.invoked_ns,
    });
    if !operation.node.is_empty() {
        fields["node"] = json!(operation.node);
    }
    match &operation.call {
        Call::Write(value) => fields["value"] = json!(value),
        Call::CompareAndSet { expected, new } => {
            fields["expected"] = json!(expected);
            fields["new"] = json!(new);
        }
        Call::Increment(by) => fields["by"] = json!(by),
        Call::Add(member) | Call::Remove(member) => fields["member"] = json!(member),
        Call::Push(item) => fields["item"] = json!(item),
        Call::Open(balances) => fields["balances"] = json!(balances),
        Call::Move { from, to, amount } => {
            fields["from"] = json!(from);
            fields["to"] = json!(to);
            fields["amount"] = json!(amount);
        }
        Call::Read | Call::Pop => {}
    }
    match &operation.ending {
        Ending::Replied { at_ns, reply } => {
            fields["completed"] = json!(at_ns);
            fields["reply"] = match reply {
                Reply::Done => json!("done"),
                Reply::Value(value) => json!({ "value": value }),
                Reply::Changed(changed) => json!({ "changed": changed }),
                Reply::Number(number) => json!({ "number": number }),
                Reply::Members(members) => json!({ "members": members }),
                Reply::Items(items) => json!({ "items": items }),
                Reply::Balances(balances) => json!({ "balances": balances }),
            };
        }
        Ending::Failed => fields["outcome"] = json!("failed"),
        Ending::Unknown => fields["outcome"] = json!("unknown"),
    }
    fields.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_line_and_the_field() {
        let good = r#"{"kind":"register","key":"k","client":1,"call":"read","invoked":1,"completed":2,"reply":{"value":null}}"#;
        let error = |line: &str| parse(&format!("# head\n{good}\n\n{line}\n")).unwrap_err().to_string();
        assert_eq!(parse(good).unwrap().len(), 1);
        for (from, to, expected) in [
            ("\"key\":\"k\",", "", "line 4: the field \"key\" is missing"),
            (
                "\"invoked\":1",
                "\"invoked\":-1",
                "line 4: the field \"invoked\" must be a whole number from 0 to 2^64 - 1",
            ),
            ("\"invoked\":1", "\"invoked\":3", "line 4: \"completed\" is before \"invoked\""),
            ("{\"value\":null}", "\"done\"", "line 4: a register has no \"read\" with this reply"),
            ("\"client\"", "\"more\":1,\"client\"", "line 4: there is no field \"more\" here"),
            ("\"value\":null", "\"value\":7", "line 4: the field \"value\" must be a string or null"),
        ] {
            assert_eq!(error(&good.replace(from, to)), expected);
        }
        assert!(error("[1]").starts_with("line 4: expected a JSON object: "));
        assert!(error(&good[..20]).starts_with("line 4: expected a JSON object: "));
    }
}
