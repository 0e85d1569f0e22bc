//! The operands of a query: words, phrases, affixes, patterns, tags, and names of fields.

use super::ast::{Affix, FieldMask, Fuzzy, Intersect, Kind as NodeKind, Node, Side, Tag, Target};
use super::attributes::Attribute;
use super::escape::{folded, unescaped};
use super::lexer::{Kind, Token};
use super::parser::{Parser, Shape, syntax_error};
use crate::Error;
use crate::text::token;
use std::borrow::Cow;

impl<'q> Parser<'q, '_> {
    /// Reads an operand, or a sign before one.
    pub(super) fn operand(&mut self) -> Result<(), Error> {
        match self.token.kind {
            Kind::LeftParen | Kind::Minus | Kind::Tilde => self.push_sign(),
            Kind::Modifier if !self.is_text_only() => self.modifier(),
            _ if self.is_first_dialect() => self.first_dialect_operand(),
            Kind::IsMissing if !self.is_text_only() => self.is_missing(),
            Kind::Exact => {
                let phrase = self.phrase()?;
                self.push_value(Shape::Text, Some(phrase))
            }
            Kind::Quote => {
                self.advance();
                Err(self.syntax_error())
            }
            Kind::Prefix | Kind::Suffix | Kind::Infix | Kind::Wildcard => {
                let node = self.pattern()?;
                self.push_value(Shape::Text, Some(node))
            }
            Kind::Percent => {
                let node = self.fuzzy()?;
                self.push_value(Shape::Text, Some(node))
            }
            _ if self.is_plain() => {
                let token = self.advance();
                let is_stopword = is_word(token.kind) && self.is_stopword(token.text);
                let node = if is_stopword { None } else { Some(self.term(&token)?) };
                self.push_value(Shape::Text, node)
            }
            _ => Err(self.syntax_error()),
        }
    }

    fn first_dialect_operand(&mut self) -> Result<(), Error> {
        let node = match self.token.kind {
            Kind::Term | Kind::Number => Some(self.terms()?),
            Kind::Stopword => {
                self.advance();
                None
            }
            Kind::Quote => Some(self.quoted_terms()?),
            Kind::Prefix | Kind::Suffix | Kind::Infix => Some(self.pattern()?),
            Kind::Percent => Some(self.fuzzy()?),
            _ => return Err(self.syntax_error()),
        };
        self.push_value(Shape::Text, node)
    }

    /// Whether the next token is a word, a number or a parameter.
    fn is_plain(&self) -> bool {
        match self.token.kind {
            Kind::Term | Kind::Number => true,
            kind => {
                !self.is_first_dialect() && (is_word(kind) || matches!(kind, Kind::Size | Kind::Attribute))
            }
        }
    }

    /// A term of text. Numbers are not expanded, from dialect 2 on.
    pub(super) fn term(&mut self, token: &Token<'_>) -> Result<Node, Error> {
        self.count_clause()?;
        if token.kind == Kind::Attribute {
            let mut node = Node::term(&b""[..]);
            node.await_parameter(token.text, Target::Text, false);
            return Ok(node);
        }
        let is_number = matches!(token.kind, Kind::Number | Kind::Size) && !self.is_first_dialect();
        let mut node = Node::term(if is_number { token.text.to_vec() } else { folded(token.text) });
        node.verbatim = is_number;
        Ok(node)
    }

    /// A phrase in quotes, from dialect 2 on: its tokens are those of a text, except that the dollar does not
    /// separate. Stopwords stay.
    fn phrase(&mut self) -> Result<Node, Error> {
        let quoted = self.advance().text;
        let mut children = Vec::new();
        let mut start = 0;
        let mut is_escaped = false;
        for at in 0..=quoted.len() {
            let ends = match quoted.get(at) {
                Some(b'$') => false,
                Some(&byte) => token::is_separator(byte) && !is_escaped,
                None => true,
            };
            if ends {
                if at > start {
                    self.count_clause()?;
                    children.push(Node::term(folded(&quoted[start..at])));
                }
                start = at + 1;
            }
            is_escaped = !is_escaped && quoted.get(at) == Some(&b'\\');
        }
        Ok(exact(children))
    }

    /// Words of dialect 1: several in a row are one list.
    fn terms(&mut self) -> Result<Node, Error> {
        let first = self.advance();
        let first = self.term(&first)?;
        if !matches!(self.token.kind, Kind::Term | Kind::Number) {
            return Ok(first);
        }
        let second = self.advance();
        let mut children = vec![first, self.term(&second)?];
        while self.token.kind == Kind::Term {
            let next = self.advance();
            children.push(self.term(&next)?);
        }
        Ok(Node::new(NodeKind::Intersect(Intersect { children, exact: false })))
    }

    /// Words in quotes of dialect 1, which do not begin with a stopword.
    fn quoted_terms(&mut self) -> Result<Node, Error> {
        self.advance();
        let mut children = Vec::new();
        loop {
            match self.token.kind {
                Kind::Term | Kind::Number => {
                    let token = self.advance();
                    children.push(self.term(&token)?);
                }
                Kind::Stopword if children.len() > 1 => {
                    self.advance();
                }
                Kind::Quote if !children.is_empty() => break,
                _ => return Err(self.syntax_error()),
            }
        }
        self.advance();
        if children.len() > 1 {
            return Ok(exact(children));
        }
        let mut node = children.pop().unwrap_or_else(|| Node::new(NodeKind::Empty));
        node.verbatim = true;
        Ok(node)
    }

    /// A prefix, a suffix, an infix, or a pattern with wildcards.
    pub(super) fn pattern(&mut self) -> Result<Node, Error> {
        self.count_clause()?;
        let token = self.advance();
        let text = if token.is_parameter { Vec::new() } else { unescaped(token.text) };
        let affix = |side| NodeKind::Affix(Affix { text: text.clone().into(), side });
        let kind = match token.kind {
            Kind::Prefix => affix(Side::Prefix),
            Kind::Suffix => affix(Side::Suffix),
            Kind::Infix => affix(Side::Infix),
            _ if token.is_parameter => NodeKind::Wildcard([].into()),
            _ => NodeKind::Wildcard(token.text.into()),
        };
        let mut node = Node::new(kind);
        if token.is_parameter {
            let is_pattern = token.kind == Kind::Wildcard;
            let target = if is_pattern { Target::ExactText } else { Target::Text };
            node.await_parameter(token.text, target, false);
        }
        Ok(node)
    }

    /// A word between one to three percent signs on each side.
    fn fuzzy(&mut self) -> Result<Node, Error> {
        self.count_clause()?;
        let mut distance = 0;
        while self.token.kind == Kind::Percent && distance < 3 {
            self.advance();
            distance += 1;
        }
        if !(self.is_plain() || self.token.kind == Kind::Stopword) {
            return Err(self.syntax_error());
        }
        let token = self.advance();
        for _ in 0..distance {
            self.expect(Kind::Percent)?;
        }
        let text = if token.kind == Kind::Attribute { Vec::new() } else { folded(token.text) };
        let mut node = Node::new(NodeKind::Fuzzy(Fuzzy { text: text.into(), distance }));
        if token.kind == Kind::Attribute {
            node.await_parameter(token.text, Target::Text, false);
        }
        Ok(node)
    }

    /// `ismissing(@field)`
    fn is_missing(&mut self) -> Result<(), Error> {
        self.count_clause()?;
        self.advance();
        self.expect(Kind::LeftParen)?;
        let field = self.expect(Kind::Modifier)?;
        self.expect(Kind::RightParen)?;
        let node = Node::new(NodeKind::Missing(unescaped(field.text).into()));
        self.push_value(Shape::Any, Some(node))
    }

    /// The name of a field, or several, and the operand behind it.
    fn modifier(&mut self) -> Result<(), Error> {
        let name = unescaped(self.advance().text);
        match self.token.kind {
            Kind::Colon => {}
            Kind::Or => {
                let fields = self.more_fields(self.options.field_mask(&name))?;
                return self.push_scope(fields);
            }
            _ if self.is_first_dialect() => return Err(self.syntax_error()),
            _ => {
                let node = self.comparison(name)?;
                return self.push_value(Shape::Any, Some(node));
            }
        }
        self.advance();
        let node = match self.token.kind {
            Kind::LeftBrace if self.is_first_dialect() => self.first_dialect_tags(name)?,
            Kind::LeftBrace => self.tags(name)?,
            Kind::LeftBracket if self.is_first_dialect() => self.first_dialect_range(name)?,
            Kind::LeftBracket => self.range(name)?,
            _ => {
                let fields = self.options.field_mask(&name);
                return self.push_scope(fields);
            }
        };
        self.push_value(Shape::Any, Some(node))
    }

    /// The names behind the first one of several, and the colon.
    fn more_fields(&mut self, first: FieldMask) -> Result<FieldMask, Error> {
        let mut fields = first;
        while self.token.kind == Kind::Or {
            self.advance();
            if !self.is_plain() || self.token.kind == Kind::Attribute {
                return Err(self.syntax_error());
            }
            let name = self.advance();
            if name.text.is_empty() {
                return Err(syntax_error("Syntax error", &name));
            }
            fields |= self.options.field_mask(name.text);
        }
        self.expect(Kind::Colon)?;
        Ok(fields)
    }

    /// Tags between braces, from dialect 2 on.
    fn tags(&mut self, field: Vec<u8>) -> Result<Node, Error> {
        let mut children = Vec::new();
        loop {
            self.advance();
            children.push(self.tag()?);
            match self.token.kind {
                Kind::Or => {}
                Kind::RightBrace => break,
                _ => return Err(self.syntax_error()),
            }
        }
        self.advance();
        Ok(self.tag_node(field, children))
    }

    /// One tag; several words are one tag with spaces.
    fn tag(&mut self) -> Result<Node, Error> {
        match self.token.kind {
            Kind::Prefix | Kind::Suffix | Kind::Infix => return self.pattern(),
            Kind::Wildcard if !self.is_first_dialect() => return self.pattern(),
            _ => {}
        }
        if !self.is_plain() {
            return Err(self.syntax_error());
        }
        let first = self.advance();
        let first = self.tag_word(&first)?;
        if !self.is_plain() {
            return Ok(first);
        }
        let mut children = vec![first];
        while self.is_plain()
            || (self.is_first_dialect() && self.token.kind == Kind::Stopword && children.len() > 1)
        {
            let token = self.advance();
            let can_be_dropped = children.len() > 1 && (is_word(token.kind) || token.kind == Kind::Stopword);
            if !(can_be_dropped && self.is_stopword(token.text)) {
                children.push(self.tag_word(&token)?);
            }
        }
        Ok(Node::new(NodeKind::Intersect(Intersect { children, exact: false })))
    }

    fn tag_word(&mut self, token: &Token<'_>) -> Result<Node, Error> {
        self.count_clause()?;
        let is_parameter = token.kind == Kind::Attribute;
        let mut node = Node::term(if is_parameter { &b""[..] } else { token.text });
        if is_parameter {
            node.await_parameter(token.text, Target::ExactText, false);
        }
        Ok(node)
    }

    /// Tags between braces in dialect 1, where closing braces may be missing, or be followed by more tags.
    fn first_dialect_tags(&mut self, field: Vec<u8>) -> Result<Node, Error> {
        self.advance();
        let mut children = vec![self.first_dialect_tag()?];
        loop {
            match self.token.kind {
                Kind::Or => {
                    self.advance();
                    children.push(self.first_dialect_tag()?);
                }
                Kind::RightBrace => {
                    self.advance();
                }
                _ => return Ok(self.tag_node(field, children)),
            }
        }
    }

    fn first_dialect_tag(&mut self) -> Result<Node, Error> {
        if self.token.kind == Kind::Stopword {
            let token = self.advance();
            return self.tag_word(&token);
        }
        self.tag()
    }

    fn tag_node(&self, field: Vec<u8>, mut children: Vec<Node>) -> Node {
        for child in &mut children {
            // A parameter is a tag as it is.
            for pending in &mut child.pending {
                pending.target = Target::ExactText;
            }
        }
        Node::new(NodeKind::Tag(Tag { field: field.into(), children }))
    }

    /// A list in braces. The names are checked when it is applied.
    pub(super) fn attributes(&mut self) -> Result<Vec<Attribute<'q>>, Error> {
        self.expect(Kind::LeftBrace)?;
        let mut found = Vec::new();
        let mut is_separated = true;
        loop {
            match self.token.kind {
                Kind::RightBrace => break,
                Kind::Semicolon => {
                    self.advance();
                    is_separated = true;
                }
                Kind::Attribute if is_separated => {
                    found.push(self.attribute()?);
                    self.count_clause()?;
                    is_separated = false;
                }
                _ => return Err(self.syntax_error()),
            }
        }
        self.advance();
        Ok(found)
    }

    fn attribute(&mut self) -> Result<Attribute<'q>, Error> {
        let name = self.advance().text;
        self.expect(Kind::Colon)?;
        let is_value = match self.token.kind {
            Kind::Term | Kind::Number => true,
            Kind::Size | Kind::Exact | Kind::As | Kind::IsMissing | Kind::Attribute => {
                !self.is_first_dialect()
            }
            _ => false,
        };
        if !is_value {
            return Err(self.syntax_error());
        }
        let value = self.advance();
        let value = match value.kind {
            Kind::Attribute => Cow::Owned(self.options.params.get(value.text)?.to_vec()),
            _ => Cow::Borrowed(value.text),
        };
        Ok(Attribute { name, value })
    }
}

/// Whether a token is a word. Words with another meaning elsewhere, and phrases, are words where only a word
/// can stand.
fn is_word(kind: Kind) -> bool {
    matches!(kind, Kind::Term | Kind::Exact | Kind::As | Kind::IsMissing)
}

/// A phrase whose words stand side by side.
fn exact(children: Vec<Node>) -> Node {
    let mut node = Node::new(NodeKind::Intersect(Intersect { children, exact: true }));
    node.verbatim = true;
    node
}
