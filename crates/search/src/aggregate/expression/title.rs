//! An expression's kind and outermost part, as FT.PROFILE shows it.

use martlet_base::number::NumberBuffer;

use super::{Function, Op, Operator, Program};

impl Program {
    /// RediSearch's words for the expression's outermost part, as `Operator *` or `Function upper`.
    pub fn title(&self) -> String {
        let end = self.ops.len();
        let has = |wanted: fn(&Op) -> Option<usize>| self.ops.iter().any(|op| wanted(op) == Some(end));
        // A branch of `case` may end in any operation, and only the outermost one leads past the last.
        if has(|op| if let Op::Jump(target) = op { Some(*target) } else { None }) {
            return function(Function::Case);
        }
        match self.ops.last() {
            None | Some(Op::AndThen(_) | Op::OrElse(_) | Op::Unless(_) | Op::Jump(_)) => "Literal".to_owned(),
            Some(Op::Value(value)) => {
                let mut buffer = NumberBuffer::new();
                format!("Literal {}", String::from_utf8_lossy(value.to_text(&mut buffer)))
            }
            Some(Op::Property(index)) => {
                let name = self.properties.get(*index).map_or(&b""[..], |property| &property.name);
                format!("Property {}", String::from_utf8_lossy(name))
            }
            Some(Op::Operator(operator)) => operator.title(),
            Some(Op::Not) => "Inverted".to_owned(),
            Some(Op::Truth) => {
                let is_and = has(|op| if let Op::AndThen(target) = op { Some(*target) } else { None });
                if is_and { Operator::And.title() } else { Operator::Or.title() }
            }
            Some(Op::Call(called, _)) => function(*called),
        }
    }
}

fn function(called: Function) -> String {
    let known = Function::ALL.iter().find(|(_, function)| *function == called);
    format!("Function {}", known.map_or("", |(name, _)| name))
}

impl Operator {
    fn title(self) -> String {
        let (kind, text) = match self {
            Operator::Or => ("Predicate", "||"),
            Operator::And => ("Predicate", "&&"),
            Operator::Equal => ("Predicate", "=="),
            Operator::NotEqual => ("Predicate", "!="),
            Operator::Less => ("Predicate", "<"),
            Operator::LessOrEqual => ("Predicate", "<="),
            Operator::Greater => ("Predicate", ">"),
            Operator::GreaterOrEqual => ("Predicate", ">="),
            Operator::Add => ("Operator", "+"),
            Operator::Subtract => ("Operator", "-"),
            Operator::Multiply => ("Operator", "*"),
            Operator::Divide => ("Operator", "/"),
            Operator::Modulo => ("Operator", "%"),
            Operator::Power => ("Operator", "^"),
        };
        format!("{kind} {text}")
    }
}

#[cfg(test)]
mod tests {
    use crate::aggregate::expression::Expression;

    #[test]
    fn a_title_is_that_of_the_outermost_part() {
        for (text, wanted) in [
            ("@n*2", "Operator *"),
            ("@n + 1 > 2", "Predicate >"),
            ("@n", "Property n"),
            ("'x'", "Literal x"),
            ("5", "Literal 5"),
            ("!(@n==9)", "Inverted"),
            ("upper(@t)", "Function upper"),
            ("@n>1 && @n<5", "Predicate &&"),
            ("@n>1 || @n<5", "Predicate ||"),
            ("@n && @m || @o", "Predicate ||"),
            ("@n && (@m || @o)", "Predicate &&"),
            ("case(@n, 1, 2)", "Function case"),
            ("case(@n, 1, @m && @o)", "Function case"),
            ("@n && case(@n, 1, @m)", "Predicate &&"),
            ("case(@n, 1, 2) + 1", "Operator +"),
        ] {
            let mut slots = 0;
            let mut slot_of = |_: &[u8]| {
                slots += 1;
                Some(slots)
            };
            let program = Expression::parse(text.as_bytes()).and_then(|parsed| parsed.bind(&mut slot_of));
            assert_eq!(program.unwrap().title(), wanted, "{text}");
        }
    }
}
