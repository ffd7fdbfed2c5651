//! A reader of Rust that knows words, not grammar: enough to find what a file
//! declares, imports and names. Comments and what is in quotes are left out.

/// A word or a sign of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ident,
    Lifetime,
    Literal,
    Sign,
}

impl Token {
    pub(crate) fn is(&self, text: &str) -> bool {
        self.text == text && self.kind != Kind::Literal
    }

    pub(crate) fn is_ident(&self) -> bool {
        self.kind == Kind::Ident
    }
}

fn is_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_inner(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct Lexer {
    text: Vec<char>,
    at: usize,
    line: usize,
    tokens: Vec<Token>,
}

/// The tokens of a Rust source (of C too, but for what is in `#` lines).
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let mut lexer = Lexer { text: text.chars().collect(), at: 0, line: 1, tokens: Vec::new() };
    while lexer.step() {}
    lexer.tokens
}

impl Lexer {
    fn peek(&self, ahead: usize) -> char {
        self.text.get(self.at + ahead).copied().unwrap_or('\0')
    }

    /// Goes on to `end`, counting lines.
    fn skip_to(&mut self, end: usize) -> String {
        let end = end.min(self.text.len());
        let skipped: String = self.text[self.at..end].iter().collect();
        self.line += skipped.matches('\n').count();
        self.at = end;
        skipped
    }

    fn push(&mut self, end: usize, kind: Kind) {
        let line = self.line;
        let text = self.skip_to(end);
        self.tokens.push(Token { text, line, kind });
    }

    fn end_of_comment(&self) -> usize {
        let (mut at, mut depth) = (self.at, 0);
        loop {
            match (self.text.get(at), self.text.get(at + 1)) {
                (Some('/'), Some('*')) => (depth, at) = (depth + 1, at + 2),
                (Some('*'), Some('/')) => (depth, at) = (depth - 1, at + 2),
                (None, _) => return at,
                _ => at += 1,
            }
            if depth == 0 {
                return at;
            }
        }
    }

    /// The end of what is in quotes, the first quote at `at`.
    fn end_of_quoted(&self, mut at: usize) -> usize {
        let quote = self.text[at];
        at += 1;
        while let Some(&c) = self.text.get(at) {
            match c {
                '\\' => at += 2,
                c if c == quote => return at + 1,
                _ => at += 1,
            }
        }
        at
    }

    /// The end of a raw string whose hashes begin at `at`, if there is one.
    fn end_of_raw(&self, at: usize) -> Option<usize> {
        let hashes = self.text[at..].iter().take_while(|c| **c == '#').count();
        (self.text.get(at + hashes) == Some(&'"')).then_some(())?;
        let mut end = at + hashes + 1;
        while end < self.text.len() {
            let closed =
                self.text[end] == '"' && (1..=hashes).all(|i| self.text.get(end + i) == Some(&'#'));
            end += 1;
            if closed {
                return Some(end + hashes);
            }
        }
        Some(end)
    }

    /// The end of a string with a prefix (`r`, `b`, `c`, `br`, `cr`), if there is one.
    fn end_of_prefixed(&self) -> Option<usize> {
        let prefix = (1..=2).find(|n| matches!(self.peek(*n), '"' | '#' | '\''))?;
        let prefix_text: String = self.text[self.at..self.at + prefix].iter().collect();
        match (prefix_text.as_str(), self.peek(prefix)) {
            ("r" | "br" | "cr", '"' | '#') => self.end_of_raw(self.at + prefix),
            ("b" | "c", '"') | ("b", '\'') => Some(self.end_of_quoted(self.at + prefix)),
            _ => None,
        }
    }

    fn end_of_word(&self, from: usize) -> usize {
        let tail = self.text[from..].iter().take_while(|c| is_inner(**c)).count();
        from + tail
    }

    /// Takes one token or what stands between tokens; false at the end.
    fn step(&mut self) -> bool {
        let c = self.peek(0);
        if self.at >= self.text.len() {
            return false;
        }
        match (c, self.peek(1)) {
            ('/', '/') => {
                let rest = self.text[self.at..].iter().take_while(|c| **c != '\n').count();
                self.skip_to(self.at + rest);
            }
            ('/', '*') => {
                self.skip_to(self.end_of_comment());
            }
            ('"', _) => self.push(self.end_of_quoted(self.at), Kind::Literal),
            // 'a' and '\n' are characters, 'a is a lifetime.
            ('\'', second) if is_start(second) && self.peek(2) != '\'' => {
                self.push(self.end_of_word(self.at + 1), Kind::Lifetime);
            }
            ('\'', _) => self.push(self.end_of_quoted(self.at), Kind::Literal),
            (':', ':') | ('-', '>') | ('=', '>') => self.push(self.at + 2, Kind::Sign),
            _ if c.is_whitespace() => {
                self.skip_to(self.at + 1);
            }
            _ if c.is_ascii_digit() => self.push(self.end_of_word(self.at), Kind::Literal),
            _ if is_start(c) => self.word(),
            _ => self.push(self.at + 1, Kind::Sign),
        }
        true
    }

    fn word(&mut self) {
        if let Some(end) = self.end_of_prefixed() {
            self.push(end, Kind::Literal);
        } else if self.peek(0) == 'r' && self.peek(1) == '#' {
            self.at += 2;
            self.push(self.end_of_word(self.at), Kind::Ident);
        } else {
            self.push(self.end_of_word(self.at), Kind::Ident);
        }
    }
}

/// Where the group that opens at `at` ends: behind its closing sign.
pub(crate) fn end_of_group(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0usize;
    for (i, token) in tokens.iter().enumerate().skip(at) {
        match token.text.as_str() {
            _ if token.kind != Kind::Sign => {}
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    tokens.len()
}

/// Where the item (or statement) that begins at `at` ends.
pub(crate) fn end_of_item(tokens: &[Token], at: usize) -> usize {
    let words = tokens[at..].iter().take_while(|token| !token.is("{") && !token.is(";"));
    // These end at their semicolon, whatever is in braces before it.
    let plain = words
        .take(6)
        .any(|token| ["use", "static", "let"].iter().any(|word| token.is(word)) || token.is("="));
    let mut i = at;
    while i < tokens.len() {
        if tokens[i].is(";") {
            return i + 1;
        }
        if tokens[i].kind == Kind::Sign && ["{", "(", "["].contains(&tokens[i].text.as_str()) {
            let braces = tokens[i].is("{");
            i = end_of_group(tokens, i);
            if braces && !plain {
                return i;
            }
            continue;
        }
        // (The end of what holds it: a field, an arm.)
        if tokens[i].is("}") {
            return i;
        }
        i += 1;
    }
    i
}

/// Whether the attribute that begins at `at` holds what follows for tests alone.
fn is_test_only(tokens: &[Token], at: usize) -> bool {
    let end = end_of_group(tokens, at + 1);
    let inside = &tokens[at..end];
    inside.iter().any(|token| token.is("cfg"))
        && inside.iter().any(|token| token.is("test"))
        && !inside.iter().any(|token| token.is("not") || token.is("any"))
}

pub(crate) fn is_attribute(tokens: &[Token], at: usize) -> bool {
    tokens[at].is("#") && tokens.get(at + 1).is_some_and(|next| next.is("["))
}

/// The same without what is for tests alone, and the modules in files that are.
pub(crate) fn without_tests(tokens: &[Token]) -> (Vec<Token>, Vec<String>) {
    let (mut kept, mut modules) = (Vec::new(), Vec::new());
    let mut i = 0;
    while i < tokens.len() {
        if !(is_attribute(tokens, i) && is_test_only(tokens, i)) {
            kept.push(tokens[i].clone());
            i += 1;
            continue;
        }
        while i < tokens.len() && is_attribute(tokens, i) {
            i = end_of_group(tokens, i + 1);
        }
        let end = end_of_item(tokens, i);
        let item = &tokens[i..end];
        if item.last().is_some_and(|last| last.is(";"))
            && let Some(at) = item.iter().position(|token| token.is("mod"))
        {
            modules.extend(item.get(at + 1).map(|name| name.text.clone()));
        }
        i = end;
    }
    (kept, modules)
}

/// What a line declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) name: String,
    pub(crate) line: usize,
}

/// Every name that the tokens declare: items, fields, variants, parameters, locals.
pub(crate) fn declared(tokens: &[Token]) -> Vec<Declared> {
    const ITEMS: [&str; 10] =
        ["struct", "enum", "union", "trait", "fn", "mod", "type", "const", "static", "let"];
    let mut found = Vec::new();
    let mut add = |token: &Token| {
        let name = Declared { name: token.text.clone(), line: token.line };
        if token.is_ident() && token.text != "_" && found.last() != Some(&name) {
            found.push(name);
        }
    };
    for i in 0..tokens.len() {
        let token = &tokens[i];
        let before = i.checked_sub(1).map_or("", |i| tokens[i].text.as_str());
        let Some(next) = tokens.get(i + 1) else { break };
        if token.is_ident()
            && ITEMS.contains(&token.text.as_str())
            && before != "*"
            && before != "raw"
        {
            let name = if next.is("mut") { tokens.get(i + 2).unwrap_or(next) } else { next };
            if !["fn", "unsafe", "extern", "async"].contains(&name.text.as_str()) {
                add(name);
            }
            if token.is("enum") {
                variants(tokens, i).into_iter().for_each(&mut add);
            }
        } else if token.is("macro_rules") {
            tokens.get(i + 2).into_iter().for_each(&mut add);
        } else if token.is_ident()
            && next.is(":")
            && ["{", ",", "(", ")", "pub", "mut", "|", "]"].contains(&before)
        {
            // A field or a parameter (or, where one is given a value, its name again).
            add(token);
        }
    }
    found
}

/// The variants of the enumeration whose `enum` is at `at`.
fn variants(tokens: &[Token], at: usize) -> Vec<&Token> {
    let mut names = Vec::new();
    let Some(open) = (at..tokens.len()).find(|i| tokens[*i].is("{") || tokens[*i].is(";")) else {
        return names;
    };
    let end = end_of_group(tokens, open);
    let mut i = open + 1;
    while i + 1 < end {
        if is_attribute(tokens, i) {
            i = end_of_group(tokens, i + 1);
            continue;
        }
        names.push(&tokens[i]);
        while i + 1 < end && !tokens[i].is(",") {
            i = if tokens[i].kind == Kind::Sign { end_of_group(tokens, i) } else { i + 1 };
        }
        i += 1;
    }
    names
}

/// The words of a name: `RdmaWrite`, `rdma_write` and `RDMA_WRITE` have the same two.
pub(crate) fn words(name: &str) -> Vec<String> {
    let chars: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (i, &c) in chars.iter().enumerate() {
        let lower =
            |at: usize| chars.get(at).is_some_and(|c| c.is_lowercase() || c.is_ascii_digit());
        let begins = c.is_uppercase() && i > 0 && (lower(i - 1) || lower(i + 1));
        if !c.is_alphanumeric() || begins {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        declared(&tokens(text)).into_iter().map(|found| found.name).collect()
    }

    #[test]
    fn comments_and_quotes_are_no_words() {
        let text = "a /* b /* c */ d */ \"e \\\" f\" 'g' 'h: b\"i\" r#\"j\"# // k\nl r#type";
        let read = tokens(text);
        let idents: Vec<_> = read.iter().filter(|token| token.is_ident()).collect();
        assert_eq!(idents.iter().map(|token| &*token.text).collect::<Vec<_>>(), ["a", "l", "type"]);
        assert_eq!(idents[1].line, 2);
    }

    #[test]
    fn what_is_declared_is_found() {
        let text = "pub struct Ring { pub(crate) lap: u64, #[x] slots: Vec<*const u8> }
            enum Op { Sum, #[y] Max { by: u8 }, Min(Name) = 3 }
            const fn f(mut bytes: &[u8], n: usize) -> u8 { let mut left = a::b(c); |d: u8| d }
            mod inside {} static mut COUNT: u8 = 0; macro_rules! list { () => {} }";
        let mut found = names(text);
        found.sort();
        let mut wanted = [
            "Ring", "lap", "slots", "Op", "Sum", "Max", "by", "Min", "f", "bytes", "n", "left",
            "d", "inside", "COUNT", "list",
        ];
        wanted.sort_unstable();
        assert_eq!(found, wanted);
    }

    #[test]
    fn names_are_split_into_words() {
        assert_eq!(words("RdmaWrite2"), ["rdma", "write2"]);
        assert_eq!(words("RDMA_WRITE"), ["rdma", "write"]);
        assert_eq!(words("OFIPort"), ["ofi", "port"]);
        assert_eq!(words("src/boot/card.rs"), ["src", "boot", "card", "rs"]);
    }

    #[test]
    fn what_is_for_tests_is_left_out() {
        let text =
            "use a::b; #[cfg(test)] mod tests; #[cfg(test)] #[allow(x)] mod more { fn f() {} }
            #[cfg(test)] use c::{d, e}; fn kept() { #[cfg(test)] let x = S { a }; y }";
        let (kept, modules) = without_tests(&tokens(text));
        let kept: Vec<_> = kept.iter().map(|token| &*token.text).collect();
        assert_eq!(kept.join(" "), "use a :: b ; fn kept ( ) { y }");
        assert_eq!(modules, ["tests"]);
    }
}
