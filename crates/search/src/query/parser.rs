//! From tokens to a tree: operators by precedence, on a stack of its own.
//!
//! The stack alternates operators and values in the order of the text; by the top and the next token, `joins`
//! decides whether the parser joins the top or adds the token. Dialect 1 and the later ones differ in that
//! decision (`joins`) and in their operands (`operands.rs`). The stack has a limit, and a join makes the tree
//! at most one level deeper, so trees are bounded too.

use super::ast::{ALL_FIELDS, FieldMask, Intersect, Kind as NodeKind, Node};
use super::lexer::{Kind, Lexer, Token};
use super::{CLAUSES_MAX, Options, STACK_MAX};
use crate::Error;

/// The kinds of values.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Terms of text; a field's name may stand before it.
    Text,
    /// A union of such.
    TextUnion,
    /// Anything else.
    Any,
    /// A union of such.
    AnyUnion,
}

impl Shape {
    fn is_text(self) -> bool {
        matches!(self, Shape::Text | Shape::TextUnion)
    }

    /// The shape of two together.
    fn with(self, other: Shape) -> Shape {
        if self.is_text() && other.is_text() { Shape::Text } else { Shape::Any }
    }
}

/// A symbol on the stack.
enum Item {
    /// A node. `None`: only stopwords.
    Value(Shape, Option<Node>),
    Or,
    Not,
    Optional,
    Paren,
    Scope(FieldMask),
}

struct Entry {
    item: Item,
    /// Whether only text may stand here: behind a field's name and a colon.
    text_only: bool,
}

/// Reads one query.
pub(super) struct Parser<'q, 'o> {
    lexer: Lexer<'q>,
    pub options: &'o Options<'o>,
    /// The next token.
    pub token: Token<'q>,
    stack: Vec<Entry>,
    clauses: usize,
}

impl<'q, 'o> Parser<'q, 'o> {
    pub(super) fn new(query: &'q [u8], options: &'o Options<'o>) -> Self {
        let mut lexer = Lexer::new(query, options.dialect < 2);
        let token = lexer.next();
        let mut parser = Parser { lexer, options, token, stack: Vec::new(), clauses: 0 };
        parser.mark_stopword();
        parser
    }

    /// The query's tree; none if it has only stopwords.
    pub(super) fn parse(mut self) -> Result<Option<Node>, Error> {
        if self.token.kind == Kind::End {
            return Ok(None);
        }
        loop {
            match self.stack.last() {
                Some(Entry { item: Item::Value(..), .. }) => {
                    if let Some(root) = self.after_value()? {
                        return Ok(root);
                    }
                }
                _ if self.token.kind == Kind::Star => return self.star(),
                _ => self.operand()?,
            }
        }
    }

    pub(super) fn is_first_dialect(&self) -> bool {
        self.options.dialect < 2
    }

    pub(super) fn advance(&mut self) -> Token<'q> {
        let token = std::mem::replace(&mut self.token, self.lexer.next());
        self.mark_stopword();
        token
    }

    /// Gives a stopword its own kind, in dialect 1.
    fn mark_stopword(&mut self) {
        if self.is_first_dialect() && self.token.kind == Kind::Term && self.is_stopword(self.token.text) {
            self.token.kind = Kind::Stopword;
        }
    }

    pub(super) fn is_stopword(&self, text: &[u8]) -> bool {
        self.options.stopwords.is_some_and(|list| list.contains_any_case(text))
    }

    /// The error that the next token is out of place.
    pub(super) fn syntax_error(&self) -> Error {
        syntax_error("Syntax error", &self.token)
    }

    /// Takes the next token, which must be of this kind.
    pub(super) fn expect(&mut self, kind: Kind) -> Result<Token<'q>, Error> {
        if self.token.kind == kind { Ok(self.advance()) } else { Err(self.syntax_error()) }
    }

    /// Counts a node that is about to be made.
    pub(super) fn count_clause(&mut self) -> Result<(), Error> {
        self.clauses += 1;
        match self.clauses <= CLAUSES_MAX {
            true => Ok(()),
            false => Err(Error::new(format!("The query has more than {CLAUSES_MAX} clauses"))),
        }
    }

    fn push(&mut self, item: Item, text_only: bool) -> Result<(), Error> {
        if self.stack.len() >= STACK_MAX {
            return Err(Error::new("Parser stack overflow. Try moving nested parentheses more to the left"));
        }
        self.stack.push(Entry { item, text_only });
        Ok(())
    }

    /// Puts an operand on the stack.
    pub(super) fn push_value(&mut self, shape: Shape, node: Option<Node>) -> Result<(), Error> {
        let text_only = self.is_text_only();
        self.push(Item::Value(shape, node), text_only)
    }

    /// Puts fields on the stack: the operand that follows must match in them.
    pub(super) fn push_scope(&mut self, fields: FieldMask) -> Result<(), Error> {
        self.push(Item::Scope(fields), true)
    }

    /// Puts a sign before an operand on the stack.
    pub(super) fn push_sign(&mut self) -> Result<(), Error> {
        let item = match self.advance().kind {
            Kind::Minus => Item::Not,
            Kind::Tilde => Item::Optional,
            _ => Item::Paren,
        };
        let text_only = self.is_text_only();
        self.push(item, text_only)
    }

    /// Whether only text may stand behind the stack's top.
    pub(super) fn is_text_only(&self) -> bool {
        !self.is_first_dialect() && self.stack.last().is_some_and(|entry| entry.text_only)
    }

    /// [`Self::is_text_only`] of the place that the value on the top has.
    fn is_text_only_around_top(&self) -> bool {
        match self.stack.len().checked_sub(2) {
            Some(below) => !self.is_first_dialect() && self.stack[below].text_only,
            None => false,
        }
    }

    /// Whether a token may begin an operand behind a value.
    fn begins_operand(&self, kind: Kind) -> bool {
        match kind {
            Kind::Term | Kind::Number | Kind::Prefix | Kind::Suffix | Kind::Infix | Kind::Percent => true,
            Kind::LeftParen | Kind::Minus | Kind::Tilde | Kind::Quote => true,
            Kind::Stopword => self.is_first_dialect(),
            Kind::Exact | Kind::Size | Kind::As | Kind::IsMissing | Kind::Attribute | Kind::Wildcard => {
                !self.is_first_dialect()
            }
            Kind::Modifier => !self.is_text_only_around_top(),
            _ => false,
        }
    }

    /// Joins the values that the next token closes, then adds the token. Returns the tree at the query's end.
    fn after_value(&mut self) -> Result<Option<Option<Node>>, Error> {
        let kind = self.token.kind;
        while self.joins(kind) {
            self.join()?;
        }
        match kind {
            Kind::Or => {
                self.advance();
                let is_text_union = matches!(self.top(), Some(Item::Value(Shape::TextUnion, _)));
                let text_only = is_text_union || self.is_text_only_around_top();
                self.push(Item::Or, text_only)?;
            }
            Kind::Arrow => {
                self.advance();
                return self.arrow();
            }
            Kind::RightParen => self.close_paren()?,
            Kind::End if self.stack.len() == 1 => {
                return Ok(Some(self.pop_value().1));
            }
            kind if self.begins_operand(kind) => {
                self.end_union();
                self.operand()?;
            }
            _ => return Err(self.syntax_error()),
        }
        Ok(None)
    }

    /// A union that no further alternative follows is a value like others.
    fn end_union(&mut self) {
        if let Some(Entry { item: Item::Value(shape, _), .. }) = self.stack.last_mut() {
            *shape = shape.with(*shape);
        }
    }

    fn top(&self) -> Option<&Item> {
        self.stack.last().map(|entry| &entry.item)
    }

    fn below(&self, depth: usize) -> Option<&Item> {
        let place = self.stack.len().checked_sub(depth + 1)?;
        self.stack.get(place).map(|entry| &entry.item)
    }

    /// Whether the stack's top is joined before a token of this kind is looked at.
    fn joins(&self, kind: Kind) -> bool {
        if self.is_first_dialect() { self.joins_in_first(kind) } else { self.joins_in_later(kind) }
    }

    fn joins_in_first(&self, kind: Kind) -> bool {
        let is_or_arrow = matches!(kind, Kind::Or | Kind::Arrow);
        match self.below(1) {
            None | Some(Item::Paren) => false,
            Some(Item::Value(..) | Item::Scope(_)) => !is_or_arrow,
            Some(Item::Or) => kind != Kind::Arrow,
            Some(Item::Not) => {
                let is_weaker = matches!(kind, Kind::Quote | Kind::Minus | Kind::Tilde);
                is_weaker || !(is_or_arrow || self.begins_operand(kind))
            }
            Some(Item::Optional) => kind == Kind::Tilde || !(is_or_arrow || self.begins_operand(kind)),
        }
    }

    fn joins_in_later(&self, kind: Kind) -> bool {
        let is_arrow = kind == Kind::Arrow;
        // Numbers, affixes, patterns and parameters bind tighter than anything that can stand before them.
        let binds_tighter = matches!(
            kind,
            Kind::Number
                | Kind::Size
                | Kind::Prefix
                | Kind::Suffix
                | Kind::Infix
                | Kind::Percent
                | Kind::Attribute
                | Kind::Wildcard
        );
        match self.below(1) {
            None | Some(Item::Paren) => false,
            Some(Item::Value(..) | Item::Not | Item::Optional) => !(is_arrow || binds_tighter),
            Some(Item::Scope(_)) => !binds_tighter,
            Some(Item::Or) if kind == Kind::Or => {
                let is_general = matches!(self.below(2), Some(Item::Value(Shape::AnyUnion, _)));
                !is_general || matches!(self.top(), Some(Item::Value(Shape::Any, _)))
            }
            Some(Item::Or) => !(is_arrow || self.begins_operand(kind)),
        }
    }

    fn pop_value(&mut self) -> (Shape, Option<Node>, bool) {
        match self.stack.pop() {
            Some(Entry { item: Item::Value(shape, node), text_only }) => (shape, node, text_only),
            // The callers have seen a value there.
            _ => (Shape::Any, None, false),
        }
    }

    /// Joins the value on the top with the symbol before it.
    fn join(&mut self) -> Result<(), Error> {
        let (shape, node, _) = self.pop_value();
        let Some(entry) = self.stack.pop() else { return Ok(()) };
        let (shape, node) = match entry.item {
            Item::Value(left_shape, left) => (left_shape.with(shape), intersection(left, node)),
            Item::Or => {
                let (left_shape, left, _) = self.pop_value();
                let is_text = left_shape.is_text() && shape.is_text();
                let joined = if is_text { Shape::TextUnion } else { Shape::AnyUnion };
                (joined, union(left, node))
            }
            Item::Not => (shape.with(shape), node.map(|node| Node::new(NodeKind::Not(Box::new(node))))),
            Item::Optional => {
                (shape.with(shape), node.map(|node| Node::new(NodeKind::Optional(Box::new(node)))))
            }
            Item::Scope(fields) => {
                let mut node = node;
                if let Some(node) = &mut node {
                    node.restrict(fields);
                }
                (Shape::Any, node)
            }
            Item::Paren => (shape.with(shape), node),
        };
        self.count_clause()?;
        self.push_value(shape, node)
    }

    fn close_paren(&mut self) -> Result<(), Error> {
        if !matches!(self.below(1), Some(Item::Paren)) {
            return Err(self.syntax_error());
        }
        self.advance();
        let (shape, node, _) = self.pop_value();
        self.stack.pop();
        self.push_value(shape.with(shape), node)
    }

    /// Reads the part behind `=>`: attributes of the value on the top, or the search for near vectors.
    fn arrow(&mut self) -> Result<Option<Option<Node>>, Error> {
        let is_whole = self.stack.len() == 1;
        if !self.is_first_dialect() && is_whole && self.token.kind == Kind::LeftBracket {
            let (_, filter, _) = self.pop_value();
            return self.nearest(filter).map(|root| Some(Some(root)));
        }
        let attributes = self.attributes()?;
        if let Some(Entry { item: Item::Value(_, Some(node)), .. }) = self.stack.last_mut() {
            super::attributes::apply(node, &attributes)?;
        }
        Ok(None)
    }

    /// All documents: the star alone, in parentheses from dialect 2 on, and the search for near vectors in
    /// all.
    fn star(mut self) -> Result<Option<Node>, Error> {
        let depth = self.stack.len();
        let is_alone = self.stack.iter().all(|entry| matches!(entry.item, Item::Paren));
        if !is_alone || (self.is_first_dialect() && depth > 0) {
            return Err(self.syntax_error());
        }
        self.advance();
        for _ in 0..depth {
            self.expect(Kind::RightParen)?;
        }
        if self.token.kind == Kind::Arrow && !self.is_first_dialect() {
            self.advance();
            return self.nearest(None).map(Some);
        }
        self.expect(Kind::End)?;
        Ok(Some(Node::new(NodeKind::All)))
    }
}

/// An error at a token.
pub(super) fn syntax_error(what: &str, token: &Token<'_>) -> Error {
    let near = String::from_utf8_lossy(token.text);
    Error::new(format!("{what} at offset {} near {near}", token.offset))
}

/// The documents of both. The second node joins a list that the first one is, unless the list has fields.
fn intersection(left: Option<Node>, right: Option<Node>) -> Option<Node> {
    let (mut left, right) = match (left, right) {
        (Some(left), Some(right)) => (left, right),
        (left, right) => return left.or(right),
    };
    if left.fields == ALL_FIELDS
        && let NodeKind::Intersect(Intersect { children, exact: false }) = &mut left.kind
    {
        children.push(right);
        return Some(left);
    }
    Some(Node::new(NodeKind::Intersect(Intersect { children: vec![left, right], exact: false })))
}

/// The documents of either. The second node joins a union that the first one is, unless the union has fields.
fn union(left: Option<Node>, right: Option<Node>) -> Option<Node> {
    let (mut left, right) = match (left, right) {
        (Some(left), Some(right)) => (left, right),
        (left, right) => return left.or(right),
    };
    if left.fields == ALL_FIELDS
        && let NodeKind::Union(children) = &mut left.kind
    {
        children.push(right);
        return Some(left);
    }
    Some(Node::new(NodeKind::Union(vec![left, right])))
}
