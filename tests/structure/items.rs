//! The items of a module: attributes, visibility, kind, name, and the tokens
//! before the body.

use crate::reader::{self, Kind, Token};

pub(crate) struct Item<'a> {
    /// Those that say for what it is compiled, and what they derive.
    pub(crate) attributes: Vec<&'a [Token]>,
    pub(crate) is_public: bool,
    /// `struct`, `fn`, `impl`, ...: the word that says what it is.
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
    /// What stands before the body, from the first word behind `pub`.
    pub(crate) head: &'a [Token],
    /// What is in the braces (of a structure with unnamed fields, in the parentheses).
    pub(crate) body: &'a [Token],
}

const KINDS: [&str; 12] = [
    "struct",
    "enum",
    "union",
    "trait",
    "type",
    "static",
    "use",
    "mod",
    "impl",
    "macro_rules",
    "fn",
    "const",
];

impl Item<'_> {
    pub(crate) fn has_attribute(&self, words: &[&str]) -> bool {
        self.attributes
            .iter()
            .any(|attribute| words.iter().all(|word| attribute.iter().any(|token| token.is(word))))
    }

    /// Whether documentation shows it.
    pub(crate) fn is_shown(&self) -> bool {
        self.is_public
            && !self.has_attribute(&["doc", "hidden"])
            && !self.has_attribute(&["cfg", "fuzzing"])
            && !self.has_attribute(&["cfg", "doctest"])
    }
}

/// The items of a module, of an `impl` or of a trait.
pub(crate) fn items(tokens: &[Token]) -> Vec<Item<'_>> {
    let (mut items, mut i) = (Vec::new(), 0);
    while i < tokens.len() {
        let mut attributes = Vec::new();
        while i < tokens.len() && tokens[i].is("#") {
            let open =
                if tokens.get(i + 1).is_some_and(|next| next.is("!")) { i + 2 } else { i + 1 };
            let end = reader::end_of_group(tokens, open);
            attributes.push(&tokens[i..end]);
            i = end;
        }
        let mut is_public = false;
        if tokens.get(i).is_some_and(|token| token.is("pub")) {
            is_public = true;
            i += 1;
            if tokens.get(i).is_some_and(|token| token.is("(")) {
                is_public = false;
                i = reader::end_of_group(tokens, i);
            }
        }
        let (end, body) = ends(tokens, i);
        let whole = &tokens[i.min(end)..end];
        let head = &tokens[i.min(body)..body];
        let at = head.iter().position(|token| token.is_ident() && KINDS.contains(&&*token.text));
        if let Some(at) = at {
            // `const fn`, but `fn` of a type in what stands behind a name is none.
            let is_fn = head[at].is("const")
                && head[at + 1..].iter().take(3).any(|token| token.is("fn") || token.is("unsafe"));
            let at =
                if is_fn { head.iter().position(|token| token.is("fn")).unwrap_or(at) } else { at };
            let mut names =
                head[at + 1..].iter().filter(|token| token.is_ident() && !token.is("mut"));
            items.push(Item {
                attributes,
                is_public,
                kind: &head[at].text,
                name: names.next().map_or("", |name| &name.text),
                head,
                body: inside(&whole[head.len()..]),
            });
        }
        i = end.max(i + 1);
    }
    items
}

/// What is between the first and the last sign of a group, if it is one.
fn inside(group: &[Token]) -> &[Token] {
    let is_group = group.first().is_some_and(|token| token.is("{") || token.is("("));
    let end = if is_group { reader::end_of_group(group, 0) - 1 } else { return &[] };
    &group[1..end]
}

/// Where the item at `i` ends, and where its body begins.
fn ends(tokens: &[Token], mut i: usize) -> (usize, usize) {
    let begin = i;
    let (mut body, mut to_semicolon, mut has_value, mut is_struct) = (None, false, false, false);
    while i < tokens.len() {
        let token = &tokens[i];
        if token.is(";") {
            return (i + 1, body.unwrap_or(i));
        }
        let braces = token.is("{");
        if token.is_ident() {
            let is_const = token.is("const")
                && !tokens[i + 1..].iter().take(3).any(|next| next.is("fn") || next.is("unsafe"));
            has_value |= i == begin && (is_const || token.is("static"));
            to_semicolon |= has_value || (i == begin && (token.is("use") || token.is("type")));
            is_struct |= token.is("struct") && i == begin;
        } else if body.is_none()
            && (has_value && token.is("=")
                || is_struct && token.is("(") && !in_generics(&tokens[begin..i]))
        {
            body = Some(i);
        }
        if token.kind == Kind::Sign && (braces || token.is("(") || token.is("[")) {
            let end = reader::end_of_group(tokens, i);
            if braces && !to_semicolon {
                return (end, body.unwrap_or(i));
            }
            i = end;
        } else {
            i += 1;
        }
    }
    (i, body.unwrap_or(i))
}

/// Whether an angle is open behind these tokens.
fn in_generics(tokens: &[Token]) -> bool {
    let count = |sign: &str| tokens.iter().filter(|token| token.is(sign)).count();
    count("<") > count(">")
}

/// Parts of a list that commas part.
pub(crate) fn split(tokens: &[Token]) -> Vec<&[Token]> {
    let (mut found, mut begin, mut i, mut angles) = (Vec::new(), 0, 0, 0usize);
    while i < tokens.len() {
        let token = &tokens[i];
        if token.kind == Kind::Sign && ["{", "(", "["].contains(&&*token.text) {
            i = reader::end_of_group(tokens, i);
            continue;
        }
        angles += usize::from(token.is("<"));
        angles = angles.saturating_sub(usize::from(token.is(">")));
        if token.is(",") && angles == 0 {
            found.push(&tokens[begin..i]);
            begin = i + 1;
        }
        i += 1;
    }
    found.push(&tokens[begin..]);
    found.retain(|some| !some.is_empty());
    found
}

/// The tokens as one line, whatever the lines of the source.
pub(crate) fn line(tokens: &[Token]) -> String {
    let mut line = String::new();
    // (A comma at the end of a list stands only where lines are broken; that a
    // parameter is `mut` is nobody's business.)
    let closes = |next: &Token| [")", "}", "]", ">"].contains(&&*next.text);
    let is_last = |i: usize| tokens[i].is(",") && tokens.get(i + 1).is_none_or(closes);
    let is_mut = |i: usize| i > 0 && tokens[i].is("mut") && tokens[i - 1].is("(");
    let kept = (0..tokens.len()).filter(|i| !is_last(*i) && !is_mut(*i)).map(|i| &tokens[i]);
    let tokens: Vec<&Token> = kept.collect();
    for (i, token) in tokens.iter().enumerate() {
        let next = tokens.get(i + 1);
        line.push_str(&token.text);
        let Some(next) = next else { break };
        let is_word = |token: &Token| token.kind != Kind::Sign;
        let after = [",", ":", "->", "=>", "=", "+", "{", "|", ";"].contains(&&*token.text);
        let before = ["->", "=>", "=", "+", "{", "}", "|"].contains(&&*next.text);
        let closes = [">", ")", "]"].contains(&&*token.text) && is_word(next);
        let opens = is_word(token)
            && ["&", "*", "[", "("].contains(&&*next.text)
            && ["for", "where", "dyn", "as", "mut", "const", "impl"].contains(&&*token.text);
        if after || before || closes || opens || (is_word(token) && is_word(next)) {
            line.push(' ');
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_parted() {
        let text = "#![allow(x)] use a::{b, c}; #[derive(Clone)] pub struct S<F: Fn(u8)>(pub u8);
            pub(crate) enum E { A { x: u8 }, B } pub const fn f(a: &[u8]) -> Option<u8> { None }
            pub const N: [u8; 2] = { [1, 2] }; unsafe impl<T> Send for S<T> where T: X {} mod m;
            pub trait T: Copy { type A = u8; fn g(); } fn h() -> impl I<Item = u8> {} pub type F = fn(u8,);";
        let tokens = reader::tokens(text);
        let found: Vec<_> = items(&tokens)
            .iter()
            .map(|item| {
                format!("{} {} {} | {}", item.is_public, item.kind, item.name, line(item.head))
            })
            .collect();
        let wanted = [
            "false use a | use a:: { b, c }",
            "true struct S | struct S<F: Fn(u8)>",
            "false enum E | enum E",
            "true fn f | const fn f(a: &[u8]) -> Option<u8>",
            "true const N | const N: [u8; 2]",
            "false impl T | unsafe impl<T> Send for S<T> where T: X",
            "false mod m | mod m",
            "true trait T | trait T: Copy",
            "false fn h | fn h() -> impl I<Item = u8>",
            "true type F | type F = fn(u8)",
        ];
        assert_eq!(found, wanted);
        assert_eq!(line(items(&tokens)[1].body), "pub u8");
    }
}
